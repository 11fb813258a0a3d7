/* Inside a model handle: what the engine computes with. */
#ifndef PKV_MODEL_HANDLE_H
#define PKV_MODEL_HANDLE_H

#include "model/forward.h"
#include "pagedkv/model.h"

/* They live as long as the model, and nothing in them changes. */
const pkv__weights *pkv__model_weights(const pkv_model *model);

#endif
