#!/usr/bin/env python3
"""Beam searches by Hugging Face Transformers, for tests/model/test_beam_golden.c.

Needs torch and transformers (4.40 to 4.49; later ones have another implementation):
    python3 scripts/make_beam_goldens.py tests/model/golden/beam_hf.json
More cases than are committed, for a longer comparison: --per-kind 60 --seed 7.
"""
import argparse
import json
import random
import sys

import torch
import transformers
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

HOW = (
    "generate(num_beams=width, num_return_sequences=width) with a model whose logits follow from the last two "
    "tokens: (k - 2^23) * 2^-21, k = mix(mix(mix(mix(seed) ^ last but one) ^ last) ^ token) >> 40, mix = splitmix64, "
    "boost added to the ending tokens. Of several ending tokens the results name the first only. Width 1: greedy.")
MASK = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def row(case, before, last):
    key = mix(mix(mix(case["seed"]) ^ before) ^ last)
    logits = [((mix(key ^ token) >> 40) - (1 << 23)) * 2.0**-21 for token in range(case["vocab"])]
    for end in case["ends"]:
        logits[end] += case["boost"]
    return logits


class TableConfig(PretrainedConfig):
    model_type = "table"


class Table(PreTrainedModel, GenerationMixin):
    config_class = TableConfig

    def __init__(self, config, case):
        super().__init__(config)
        self.case = case
        self.nothing = torch.nn.Parameter(torch.zeros(1))

    def forward(self, input_ids=None, **_):
        rows = [row(self.case, ids[-2], ids[-1]) for ids in input_ids.tolist()]
        return CausalLMOutput(logits=torch.tensor(rows)[:, None, :])

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}


def search(case):
    options = {}
    pad = case["vocab"]
    if case["width"] > 1:
        options = dict(num_beams=case["width"], num_return_sequences=case["width"], length_penalty=case["penalty"],
                       early_stopping=case["early"])
    config = GenerationConfig(max_new_tokens=case["max_new"], eos_token_id=case["ends"] or None, pad_token_id=pad,
                              use_cache=False, do_sample=False, return_dict_in_generate=True, output_scores=True,
                              **options)
    model = Table(TableConfig(vocab_size=case["vocab"]), case)
    out = model.generate(torch.tensor([case["prompt"]]), generation_config=config)
    results = []
    for i, ids in enumerate(out.sequences.tolist()):
        score = float(out.sequences_scores[i]) if case["width"] > 1 else None
        results.append({"ids": [t for t in ids[2:] if t != pad], "score": score})
    return dict(case, results=results)


def cases(per_kind, seed):
    """Each first step has pairs for all beams: Transformers would fill up with ones of -1e9."""
    rng = random.Random(seed)
    kinds = [(w, p, e) for w in (1, 2, 3, 4, 8) for p in (-1.0, 0.0, 0.5, 1.0, 2.0) for e in (False, True)]
    for width, penalty, early in kinds:
        for _ in range(per_kind):
            vocab = rng.choice([36, 40])
            ends = rng.sample(range(vocab), rng.choice([0, 1, 1, 1, 2, 3]))
            yield dict(seed=rng.getrandbits(32), vocab=vocab, ends=ends, boost=rng.choice([-1, 0, 1, 2, 3]),
                       prompt=[rng.randrange(vocab), rng.randrange(vocab)], width=width, penalty=penalty, early=early,
                       max_new=rng.choice([1, 2, 5, 8, 12]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--per-kind", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    made_with = {"transformers": transformers.__version__, "torch": torch.__version__,
                 "python": sys.version.split()[0]}
    lines = [json.dumps(search(case), separators=(",", ":")) for case in cases(args.per_kind, args.seed)]
    with open(args.out, "w", encoding="utf-8") as file:
        file.write('{"made_with": %s,\n "how": %s,\n "cases": [\n%s\n]}\n' %
                   (json.dumps(made_with), json.dumps(HOW), ",\n".join(lines)))


if __name__ == "__main__":
    main()
