/* Output files that appear whole or not at all. */
#ifndef PKV_TOOLS_TOOL_FILE_H
#define PKV_TOOLS_TOOL_FILE_H

#include <stdio.h>

/* One name per file, however it is written. A link is followed: what it points to is replaced, and
 * not the link. NULL: errno says why there can be no such file. The caller frees it. */
char *tool_file_target(const char *path);
/* A new file beside `target`, to be renamed to it or removed; its name is the caller's to free.
 * NULL: errno says why it is not there. */
FILE *tool_file_begin(const char *target, char **temporary);

#endif
