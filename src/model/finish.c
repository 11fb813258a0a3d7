/* Names of how samples end. */
#include "pagedkv/engine.h"

const char *pkv_finish_name(pkv_finish finish)
{
    switch (finish) {
    case PKV_FINISH_NONE:
        return "none";
    case PKV_FINISH_STOP:
        return "stop";
    case PKV_FINISH_LENGTH:
        return "length";
    case PKV_FINISH_CONTEXT:
        return "context";
    case PKV_FINISH_CANCEL:
        return "cancel";
    case PKV_FINISH_DEADLINE:
        return "deadline";
    case PKV_FINISH_ERROR:
        return "error";
    }
    return "unknown";
}
