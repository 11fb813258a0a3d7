/* The libraries behind the reference transformer and the Unicode versions of their tables. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "pkv_info.h"

#include <pcre2.h>
#include <utf8proc.h>

static void pcre2_text(uint32_t what, char *out, size_t cap)
{
    char text[64] = ""; /* "10.42 2022-12-11" */
    if (pcre2_config(what, NULL) > (int)sizeof(text) || pcre2_config(what, text) < 0)
        text[0] = '\0';
    int n = 0;
    while (text[n] && text[n] != ' ') n++;
    snprintf(out, cap, "%.*s", n, text);
}

int info_libraries(info_library out[INFO_MAX_LIBRARIES])
{
    out[0] = (info_library){ "jansson", "", "" };
    out[1] = (info_library){ "PCRE2", "", "" };
    out[2] = (info_library){ "utf8proc", "", "" };
    snprintf(out[0].version, sizeof(out[0].version), "%s", jansson_version_str());
    pcre2_text(PCRE2_CONFIG_VERSION, out[1].version, sizeof(out[1].version));
    pcre2_text(PCRE2_CONFIG_UNICODE_VERSION, out[1].unicode, sizeof(out[1].unicode));
    snprintf(out[2].version, sizeof(out[2].version), "%s", utf8proc_version());
    snprintf(out[2].unicode, sizeof(out[2].unicode), "%s", utf8proc_unicode_version());
    return 3;
}
