/* Which tokenizer is a model's own, the same for all programs. */
#ifndef PKV_TOOLS_TOOL_TOKENIZER_H
#define PKV_TOOLS_TOOL_TOKENIZER_H

/* What to open: a file or a folder. `format` is that of pkv_model_info or pkv_kv_source. NULL: no
 * memory. The caller frees it. */
char *tool_tokenizer_place(const char *model, const char *format);

#endif
