/* The verbs that need libpagedkv-model, where it is not built: they say so. */
#include "pkv_info.h"

static int refuse(const char *verb)
{
    info_complain("%s needs libpagedkv-model, which this build is without: configure with "
                  "-Dmodel=enabled (jansson, PCRE2, utf8proc)",
                  verb);
    return INFO_USAGE;
}

int info_model(int argc, char **argv)
{
    (void)argc;
    return refuse(argv[1]);
}

int info_tokenize(int argc, char **argv)
{
    (void)argc;
    return refuse(argv[1]);
}

int info_kv_size(int argc, char **argv)
{
    (void)argc;
    return refuse(argv[1]);
}

int info_libraries(info_library out[INFO_MAX_LIBRARIES])
{
    out[0] = (info_library){ "jansson", "", "" };
    snprintf(out[0].version, sizeof(out[0].version), "%s", jansson_version_str());
    return 1;
}
