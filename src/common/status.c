/* Names and texts of statuses, version numbers. */
#include "pagedkv/base.h"

#define PKV_STR_(x) #x
#define PKV_STR(x) PKV_STR_(x)

const char *pkv_version(void)
{
    return PKV_STR(PKV_VERSION_MAJOR) "." PKV_STR(PKV_VERSION_MINOR) "." PKV_STR(PKV_VERSION_PATCH);
}

uint32_t pkv_abi_version(void)
{
    return PKV_ABI_VERSION;
}

const char *pkv_status_name(pkv_status status)
{
    switch (status) {
#define PKV_STATUS_CASE(name, value, text)                                                         \
    case PKV_##name:                                                                               \
        return "PKV_" #name;
        PKV_STATUS_LIST(PKV_STATUS_CASE)
#undef PKV_STATUS_CASE
    }
    return "PKV_E_?";
}

const char *pkv_status_text(pkv_status status)
{
    switch (status) {
#define PKV_STATUS_CASE(name, value, text)                                                         \
    case PKV_##name:                                                                               \
        return text;
        PKV_STATUS_LIST(PKV_STATUS_CASE)
#undef PKV_STATUS_CASE
    }
    return "not a status of this library";
}
