"""Attacks on weight files and configurations: what each file is, what is wrong with it, and what
opening it must say. `ok-` files are odd and must open."""
import struct

from attack_formats import (
    ARRAY, BOOL, CONFIG, F32, F64, I32, I64, T_F16, T_F32, T_Q8_0, TEXT, U16, U32, U64, U8, V, H,
    array, compact, entry, floats, gguf, gguf_model, info, int_key, key, llama2c, model_header,
    model_keys, model_tensors, replaced, safetensors, text, text_key, tokenizer_keys, u32, u64, without)

Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"
FLOAT4 = floats(1, 1, "F32")


def safetensors_cases():
    """name, what is wrong, status, part of the message, bytes"""
    a = {"a": entry("F32", [1], 0, 4)}
    two = {"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 4, 8)}

    def one(**change):
        return safetensors({"a": {**a["a"], **change}}, FLOAT4)

    def lone(value):
        return safetensors({"a": value}, FLOAT4)

    def part(*leave):
        return safetensors({"a": {k: v for k, v in a["a"].items() if k not in leave}}, FLOAT4)

    yield "empty", "no byte at all", "FORMAT", "byte 0: the file is empty", b""
    yield "short", "five bytes, the length of the header has eight", "FORMAT", "too short", b"\2\0\0\0\0"
    yield "length-past-end", "a header longer than the file", "FORMAT", "byte 0: a header of 1000", \
        safetensors(a, FLOAT4, length=1000)
    yield "length-2-63", "a length that is negative to some", "FORMAT", "9223372036854775808", \
        safetensors(a, FLOAT4, length=1 << 63)
    yield "length-2-64", "all bits of the length set: adding 8 wraps", "FORMAT", "18446744073709551615", \
        safetensors(a, FLOAT4, length=(1 << 64) - 1)
    yield "length-0", "a header of no byte", "FORMAT", "byte 8: the header begins with no {", \
        safetensors(a, FLOAT4, length=0)
    yield "header-list", "the header is a list", "FORMAT", "byte 8: the header begins with no {", \
        safetensors(b"[1,2]")
    yield "header-cut", "the header ends within a text", "FORMAT", "not JSON", safetensors(b'{"a')
    yield "header-twice", "something behind the object", "FORMAT", "not JSON: end of file expected", \
        safetensors(b"{} {}")
    yield "header-deep", "2,100 lists within one another", "FORMAT", "not JSON: maximum parsing depth", \
        safetensors(b'{"a":' + b"[" * 2100)
    yield "header-not-utf8", "a byte that UTF-8 does not have", "FORMAT", "not JSON: unable to decode byte", \
        safetensors(b'{"a\xff":1}')
    yield "key-twice", "one tensor comes twice in the header", "FORMAT", "not JSON: duplicate object key", \
        safetensors(b'{"a":' + compact(a["a"]) + b',"a":' + compact(a["a"]) + b"}", FLOAT4)
    yield "entry-number", "an entry that is a number", "FORMAT", "byte 9: a: is no object", lone(1)
    yield "dtype-missing", "no dtype", "FORMAT", "byte 9: a: dtype is missing", part("dtype")
    yield "dtype-number", "dtype is a number", "FORMAT", "dtype is missing or no text", one(dtype=32)
    yield "dtype-unknown", "a dtype that nobody has", "UNSUPPORTED", "dtype F33 is unknown", one(dtype="F33")
    yield "shape-missing", "no shape", "FORMAT", "shape is missing", part("shape")
    yield "shape-negative", "a dimension of -1", "FORMAT", "dimension 0 is no count", one(shape=[-1])
    yield "shape-real", "a dimension of 1.5", "FORMAT", "dimension 0 is no count", one(shape=[1.5])
    yield "shape-5-dims", "five dimensions", "UNSUPPORTED", "5 dimensions, at most 4", one(shape=[1] * 5)
    yield "shape-wraps", "2^32 x 2^32 elements: the product wraps to 0", "FORMAT", \
        "the product of the shape overflows", one(shape=[1 << 32, 1 << 32], data_offsets=[0, 0])
    yield "shape-bits-wrap", "2^59 elements of 32 bits wrap to 0 bits", "FORMAT", "do not hold", \
        one(shape=[1 << 59], data_offsets=[0, 0])
    yield "shape-2-63", "a dimension above what JSON readers keep", "FORMAT", "not JSON: too big integer", \
        one(shape=[1 << 63])
    yield "offsets-one", "one offset", "FORMAT", "data_offsets are no two numbers", one(data_offsets=[0])
    yield "offsets-negative", "an offset of -4", "FORMAT", "data_offsets -4 to 0", one(data_offsets=[-4, 0])
    yield "offsets-reversed", "the end in front of the beginning", "FORMAT", "data_offsets 4 to 0", \
        one(data_offsets=[4, 0])
    yield "offsets-past-end", "the end behind the file", "FORMAT", "data_offsets 0 to 8 of 4", \
        one(data_offsets=[0, 8], shape=[2])
    yield "bytes-disagree", "4 bytes for 2 elements", "FORMAT", "4 bytes do not hold 2 elements of F32", \
        one(shape=[2])
    yield "f4-odd", "three elements of half a byte", "FORMAT", "do not hold 3 elements of F4", \
        safetensors({"a": entry("F4", [3], 0, 1)}, b"1")
    yield "overlap", "two tensors share four bytes", "FORMAT", "overlaps its neighbour", \
        safetensors({**two, "b": entry("F32", [2], 0, 8)}, FLOAT4 * 2)
    yield "hole", "four bytes between two tensors", "FORMAT", "b: a hole before it", \
        safetensors({**two, "b": entry("F32", [1], 8, 12)}, FLOAT4 * 3)
    yield "left-over", "three bytes behind the last tensor", "FORMAT", "3 bytes belong to no tensor", \
        safetensors(a, FLOAT4 + b"abc")
    yield "metadata-number", "__metadata__ is a number", "FORMAT", "__metadata__: is no object", \
        safetensors({"__metadata__": 1, **a}, FLOAT4)
    yield "metadata-list", "__metadata__ holds a list", "FORMAT", "__metadata__: holds more than texts", \
        safetensors({"__metadata__": {"format": []}, **a}, FLOAT4)
    yield "name-empty", "a tensor without a name", "FORMAT", "an empty tensor name", \
        safetensors({"": a["a"]}, FLOAT4)
    yield "name-zero", "a zero byte within a name", "FORMAT", "not JSON", \
        safetensors({"a\0b": a["a"]}, FLOAT4)
    yield "name-escape", "a name that would colour the terminal", "FORMAT", "?[31m", \
        safetensors({"\x1b[31m": 1}, FLOAT4)
    yield from safetensors_models()


def safetensors_models():
    """Whole models, so that what is wrong is found by what reads tensors."""
    def model(change=None, dtype="BF16", cut=0, **more):
        header, data = model_header(dtype, change=change)
        raw = safetensors({**more, **header}, data)
        return raw[:len(raw) - cut]

    ones = floats(H * H, 3, "F32")
    yield "tensor-missing", "no query projection", "FORMAT", f"tensor {Q} is missing", model({Q: None})
    yield "tensor-shape", "a query projection of 4 columns", "FORMAT", f"tensor {Q} has 2 dims, 8 x 4", \
        model({Q: ("F32", [H, 4], ones[:128])})
    yield "tensor-dims", "a query projection of one dimension", "FORMAT", "has 1 dims", \
        model({Q: ("F32", [H * H], ones)})
    yield "tensor-type", "a query projection of integers", "UNSUPPORTED", "is of type I32", \
        model({Q: ("I32", [H, H], ones)})
    yield "tensor-f64", "a query projection of doubles", "UNSUPPORTED", "is of type F64", \
        model({Q: ("F64", [H, H], ones * 2)})
    yield "tensor-empty", "a norm of no element", "FORMAT", f"tensor {NORM} has 1 dims, 0 x 1", \
        model({NORM: ("F32", [0], b"")})
    yield "bias", "a bias that nobody would add", "UNSUPPORTED", "q_proj.bias: biases are not computed", \
        model({Q.replace("weight", "bias"): ("BF16", [H], bytes(16))})
    yield "cut", "the last byte is missing", "FORMAT", "of 879 data bytes", model(cut=1)
    yield "ok-base", "nothing", "OK", "", model()
    yield "ok-f32", "nothing: F32", "OK", "", model(dtype="F32")
    yield "ok-odd-offsets", "nothing: a byte in front, so that every tensor lies at an odd offset", "OK", "", \
        safetensors_shifted()
    yield "ok-empty-tensor", "nothing: a tensor of 0 x 3 elements beside", "OK", "", \
        model({"unused": ("F32", [0, 3], b"")})
    yield "ok-scalar", "nothing: a tensor without dimensions beside", "OK", "", \
        model({"unused": ("F32", [], FLOAT4)})
    yield "ok-other-types", "nothing: tensors of types that are not computed with, beside", "OK", "", \
        model({"d": ("F64", [1], bytes(8)), "e": ("F8_E4M3", [1], b"0"), "f": ("F4", [2], b"0")})
    yield "ok-metadata", "nothing: keys that nobody knows", "OK", "", \
        model(__metadata__={"format": "pt", "\u00e9": "\n", "x" * 100: ""})
    yield "ok-blanks", "nothing: blanks behind the header, as the specification allows", "OK", "", \
        safetensors_padded()


def safetensors_shifted():
    header, data = model_header()
    for value in header.values():
        value["data_offsets"] = [n + 1 for n in value["data_offsets"]]
    return safetensors({"first": entry("U8", [1], 0, 1), **header}, b"\7" + data)


def safetensors_padded():
    header, data = model_header()
    return safetensors(compact(header) + b" " * 13, data)


# ---------------------------------------------------------------- shards

def index_cases():
    """name, what is wrong, status, part of the message, {file: bytes}"""
    names = list(model_header()[0])
    first, second = names[:5], names[5:]

    def shard(some, change=None):
        return safetensors(*model_header(names=some, change=change))

    def folder(weight_map=None, index=None, **shards):
        files = {"a.safetensors": shard(first), "b.safetensors": shard(second)}
        files.update({k + ".safetensors": v for k, v in shards.items()})
        if weight_map is None:
            weight_map = {n: "a.safetensors" for n in first} | {n: "b.safetensors" for n in second}
        text_of = compact({"weight_map": weight_map}) if index is None else index
        return {"model.safetensors.index.json": text_of, "config.json": compact(CONFIG) + b"\n",
                **{k: v for k, v in files.items() if v is not None}}

    def to(name):
        return folder({names[0]: name}, a=None, b=None)

    outside = f"{names[0]} lies in no file beside the index"
    yield "separator", "a shard in a folder below", "FORMAT", outside, to("x/a.safetensors")
    yield "parent", "a shard in the folder above", "FORMAT", outside, to("../a.safetensors")
    yield "dots", "the folder above itself", "FORMAT", outside, to("..")
    yield "dot", "the folder itself", "FORMAT", outside, to(".")
    yield "absolute", "an absolute path", "FORMAT", outside, to("/etc/passwd")
    yield "backslash", "another system's separator", "FORMAT", outside, to("..\\a.safetensors")
    yield "no-name", "a shard without a name", "FORMAT", outside, to("")
    yield "number", "a number for a name", "FORMAT", outside, to(1)
    yield "missing-shard", "a shard that is not there", "IO", "c.safetensors", \
        folder({n: "c.safetensors" for n in first}, a=None, b=None)
    yield "shard-escape", "the name of a missing shard would colour the terminal and begin a line", "IO", \
        "?[31m?.safetensors", to("\x1b[31m\n.safetensors")
    yield "itself", "the index as its own shard", "FORMAT", "model.safetensors.index.json: byte 0: a header of", \
        to("model.safetensors.index.json")
    yield "twice", "one tensor in two shards", "FORMAT", f"the tensor {names[0]} comes twice", \
        folder(b=shard([names[0]] + second))
    yield "wrong-shard", "a tensor that lies in the other shard", "FORMAT", \
        f"{names[0]} is not in the shard b.safetensors", \
        folder({n: "b.safetensors" if n == names[0] else "a.safetensors" for n in first} |
               {n: "b.safetensors" for n in second})
    yield "unknown-tensor", "a tensor that no shard has", "FORMAT", "more is not in the shard", \
        folder({**{n: "a.safetensors" for n in first}, "more": "a.safetensors"})
    yield "no-map", "no weight_map", "FORMAT", "byte 0: no weight_map", folder(index=b"{}", a=None, b=None)
    yield "empty-map", "an empty weight_map", "FORMAT", "no weight_map", folder({}, a=None, b=None)
    yield "map-list", "weight_map is a list", "FORMAT", "no weight_map", folder([1], a=None, b=None)
    yield "list", "the index is a list", "FORMAT", "no JSON object", folder(index=b"[]", a=None, b=None)
    yield "cut", "the index ends within a text", "FORMAT", "not JSON", \
        folder(index=b'{"weight_map":{"a', a=None, b=None)
    yield "key-twice", "one tensor twice in the index", "FORMAT", "duplicate object key", \
        folder(index=b'{"weight_map":{"a":"a.safetensors","a":"b.safetensors"}}', a=None, b=None)
    yield "bad-shard", "a shard whose header is cut", "FORMAT", "b.safetensors: byte ", \
        folder(b=shard(second)[:200])
    yield "half", "an index that leaves one shard out", "FORMAT", "is missing", \
        folder({n: "a.safetensors" for n in first}, b=None)
    yield "ok-two", "nothing", "OK", "", folder()
    yield "ok-more", "nothing: a tensor in a shard that the index does not name", "OK", "", \
        folder(a=shard(first, {"unused": ("F32", [1], FLOAT4)}))
    yield "ok-total", "nothing: keys beside weight_map, one of them wrong", "OK", "", \
        folder(index=compact({"metadata": {"total_size": -1}, "x": None, "weight_map":
                              {n: "a.safetensors" for n in first} | {n: "b.safetensors" for n in second}}))


# ---------------------------------------------------------------- config.json

def config_cases():
    """name, what is wrong, status, part of the message, bytes"""
    def config(_without=(), **change):
        return compact({k: v for k, v in {**CONFIG, **change}.items() if k not in _without})

    def rope(**scaling):
        return config(rope_scaling=scaling)

    yield "empty", "no byte at all", "FORMAT", "config.json: byte 0: the file is empty", b""
    yield "cut", "the file ends within a text", "FORMAT", "config.json: byte 50: not JSON", config()[:50]
    yield "list", "a list", "FORMAT", "config.json: byte 0: no JSON object", b"[]"
    yield "deep", "2,100 lists within one another", "FORMAT", "maximum parsing depth", b'{"a":' + b"[" * 2100
    yield "key-twice", "vocab_size twice", "FORMAT", "duplicate object key", \
        b'{"vocab_size":8,' + config()[1:]
    yield "real-too-large", "a number above all doubles", "FORMAT", "real number overflow", \
        config()[:-1] + b',"rope_theta":1e999}'
    yield "not-utf8", "a byte that UTF-8 does not have", "FORMAT", "unable to decode byte", b'{"a":"\xc3("}'
    yield "no-vocab", "no vocab_size", "FORMAT", "config.json: vocab_size is missing", config(["vocab_size"])
    yield "hidden-0", "hidden_size 0", "FORMAT", "hidden_size is 0, not from 1", config(hidden_size=0)
    yield "layers-negative", "-1 layers", "FORMAT", "num_hidden_layers is -1", config(num_hidden_layers=-1)
    yield "vocab-2-31", "2^31 tokens: negative as int32", "FORMAT", "vocab_size is 2147483648", \
        config(vocab_size=1 << 31)
    yield "vocab-2-32", "2^32 + 8 tokens: 8 as int32", "FORMAT", "vocab_size is 4294967304", \
        config(vocab_size=(1 << 32) + V)
    yield "heads-real", "1.0 heads", "FORMAT", "num_attention_heads is no whole number", \
        config(num_attention_heads=1.0)
    yield "ffn-text", "a text for a number", "FORMAT", "intermediate_size is no whole number", \
        config(intermediate_size="4")
    yield "kv-heads", "1 head for 3 KV heads", "FORMAT", "1 heads are no multiple of 3 kv heads", \
        config(num_key_value_heads=3)
    yield "heads-do-not-cut", "hidden 8 in 3 heads", "FORMAT", "hidden_size 8 is no multiple of 3 heads", \
        config(num_attention_heads=3)
    yield "head-dim-odd", "heads of 7 have no pairs", "FORMAT", "rotary dimension: even", config(head_dim=7)
    yield "head-dim-huge", "heads of 2^31 - 1", "FORMAT", "head_dim is 2147483647", config(head_dim=2**31 - 1)
    yield "architecture", "another architecture", "UNSUPPORTED", "GPT2LMHeadModel", \
        config(architectures=["GPT2LMHeadModel"])
    yield "architecture-two", "two architectures", "FORMAT", "architectures is no list of one name", \
        config(architectures=["LlamaForCausalLM"] * 2)
    yield "architecture-disagrees", "Llama of type mistral", "UNSUPPORTED", "model_type mistral", \
        config(model_type="mistral")
    yield "architecture-escape", "a name that would colour the terminal", "UNSUPPORTED", "?[31m", \
        config(architectures=["\x1b[31m"])
    yield "eps-0", "epsilon 0", "FORMAT", "epsilon of the norms is 0", config(rms_norm_eps=0)
    yield "eps-text", "a text for epsilon", "FORMAT", "rms_norm_eps is no number", config(rms_norm_eps="1e-5")
    yield "tied-number", "1 for true", "FORMAT", "tie_word_embeddings is no truth value", \
        config(tie_word_embeddings=1)
    yield "theta-0", "rope_theta 0", "FORMAT", "rope_theta: from 1", config(rope_theta=0)
    yield "rope-list", "rope_scaling is a list", "FORMAT", "rope_scaling is no object", config(rope_scaling=[])
    yield "rope-unknown", "scaling that nobody knows", "UNSUPPORTED", "rope_type ntk is not implemented", \
        rope(rope_type="ntk", factor=2)
    yield "rope-key", "a key that would change angles", "UNSUPPORTED", "rope_scaling.alpha is not", \
        rope(rope_type="linear", factor=2, alpha=1)
    yield "rope-no-factor", "linear without a factor", "FORMAT", "rope_scaling.factor is missing", \
        rope(rope_type="linear")
    yield "rope-factor-0", "a factor of 0", "FORMAT", "rope factor: from 1", rope(rope_type="linear", factor=0)
    yield "rope-lists", "lists of 2 for 4 pairs", "FORMAT", "one number for each pair", \
        rope(rope_type="longrope", factor=1, short_factor=[1, 1], long_factor=[1, 1])
    yield "rope-list-0", "a divisor of 0", "FORMAT", "numbers above 0", \
        rope(rope_type="longrope", factor=1, short_factor=[1, 1, 1, 0], long_factor=[1, 1, 1, 1])
    yield "rope-llama3", "low_freq_factor above high_freq_factor", "FORMAT", "above 0 and ascending", \
        rope(rope_type="llama3", factor=8, low_freq_factor=4, high_freq_factor=1,
             original_max_position_embeddings=32)
    yield "rope-disagree", "two descriptions that differ", "FORMAT", "rope_parameters and rope_scaling disagree", \
        config(rope_scaling={"rope_type": "linear", "factor": 2},
               rope_parameters={"rope_type": "linear", "factor": 4})
    yield "eos-outside", "an end beyond the vocabulary", "FORMAT", "end-of-text id 8 is outside", \
        config(eos_token_id=8)
    yield "eos-text", "an end by name", "FORMAT", "eos_token_id is no id", config(eos_token_id="</s>")
    yield "bos-outside", "a beginning of -1", "FORMAT", "bos_token_id is no id", config(bos_token_id=-1)
    yield "attention-bias", "biases", "UNSUPPORTED", "attention_bias as set here", config(attention_bias=True)
    yield "window", "a sliding window", "UNSUPPORTED", "sliding_window as set here", config(sliding_window=16)
    yield "gelu", "another activation", "UNSUPPORTED", "hidden_act as set here", config(hidden_act="gelu")
    yield "quantised", "weights in a packing that is not read", "UNSUPPORTED", "quantization_config", \
        config(quantization_config={"quant_method": "gptq"})
    yield "layer-types", "a layer without attention", "UNSUPPORTED", "layer_types", config(layer_types=["mamba"])
    yield "dtype-disagrees", "dtype and torch_dtype differ", "FORMAT", "dtype and torch_dtype disagree", \
        config(dtype="bfloat16", torch_dtype="float16")
    yield "two-layers", "a layer that the weights do not have", "FORMAT", "model.layers.1", \
        config(num_hidden_layers=2)
    yield "million-layers", "layers beyond any model", "FORMAT", "num_hidden_layers is 1000000", \
        config(num_hidden_layers=1000000)
    yield "vocab-of-another", "a vocabulary of 9, weights of 8", "FORMAT", "has 2 dims, 8 x 8", \
        config(vocab_size=9)
    yield "ok-base", "nothing", "OK", "", config()
    yield "ok-unknown-keys", "nothing: keys that nobody knows", "OK", "", \
        config(transformers_version="9", use_cache=None, x=[[{}]], _name_or_path="\x1b")
    yield "ok-nulls", "nothing: null means missing", "OK", "", \
        config(rope_scaling=None, sliding_window=None, head_dim=None, eos_token_id=None)
    yield "ok-type-alone", "nothing: model_type without architectures", "OK", "", config(["architectures"])
    yield "ok-few-keys", "nothing: what may be missing is missing", "OK", "", \
        config(["num_key_value_heads", "rms_norm_eps", "bos_token_id", "eos_token_id", "tie_word_embeddings"])
    yield "ok-eos-list", "nothing: ends in a list, one of them twice", "OK", "", config(eos_token_id=[2, 1, 2])
    yield "ok-rope-both", "nothing: two descriptions that agree", "OK", "", \
        config(rope_scaling={"type": "linear", "factor": 2}, rope_parameters={"rope_type": "linear", "factor": 2})
    yield "ok-long-context", "nothing: a context of 2^20", "OK", "", config(max_position_embeddings=1 << 20)


# ---------------------------------------------------------------- GGUF

def gguf_cases():
    """name, what is wrong, status, part of the message, bytes"""
    one = [info("a", [8], T_F32, 0)]
    data = bytes(32)

    def keyed(*keys):
        return gguf(list(keys))

    def tensor(*infos, raw=data):
        return gguf([], list(infos), raw)

    def value(kind, raw, name="k"):
        return keyed(key(name, kind, raw))

    yield "magic-only", "four bytes", "FORMAT", "byte 4: 4 bytes are wanted, 0 are left", b"GGUF"
    yield "magic-wrong", "another magic, found by its name", "FORMAT", "byte 0: no GGUF file", \
        b"GGUX" + gguf([])[4:]
    yield "version-1", "version 1", "UNSUPPORTED", "byte 4: GGUF version 1; 2 and 3 are read", gguf([], version=1)
    yield "version-4", "version 4", "UNSUPPORTED", "byte 4: GGUF version 4", gguf([], version=4)
    yield "big-endian", "version 3 of a big-endian machine", "UNSUPPORTED", "big-endian", gguf([], version=3 << 24)
    yield "cut-counts", "the file ends within the number of keys", "FORMAT", "byte 16: 8 bytes are wanted, 4", \
        gguf([])[:20]
    yield "tensors-2-64", "2^64 - 1 tensors", "FORMAT", "byte 8: 18446744073709551615 tensors in", \
        gguf([], n_tensors=(1 << 64) - 1)
    yield "keys-2-60", "2^60 keys", "FORMAT", "byte 16: 1152921504606846976 keys in", gguf([], n_keys=1 << 60)
    yield "cut-key", "the file ends within a key", "FORMAT", "20 bytes are wanted", \
        keyed(int_key("general.alignments.x", 1))[:40] + b"\0" * 2
    yield "key-2-63", "a key of 2^63 bytes", "FORMAT", "9223372036854775808 bytes are wanted", \
        keyed(u64(1 << 63) + bytes(14))
    yield "key-empty", "a key without a name", "FORMAT", "an empty key", value(U8, b"1" * 3, "")
    yield "key-zero", "a zero byte within a key", "FORMAT", "a zero byte in a key", value(U8, b"1", "a\0b")
    yield "key-twice", "one key twice", "FORMAT", "the key a comes twice", \
        keyed(int_key("a", 1), int_key("a", 1))
    yield "type-13", "a value of a type that is not there", "FORMAT", "value type 13 is unknown", value(13, b"1234")
    yield "cut-value", "the file ends within a number", "FORMAT", "8 bytes are wanted, 4 are left", \
        value(U64, b"1234")
    yield "bool-2", "a truth value of 2", "FORMAT", "a truth value of 2", value(BOOL, b"\2")
    yield "u64-large", "2^64 - 1, which no int64 holds", "FORMAT", "above 2^63 - 1", value(U64, b"\xff" * 8)
    yield "text-2-64", "a text of 2^64 - 1 bytes", "FORMAT", "18446744073709551615 bytes are wanted", \
        value(TEXT, u64((1 << 64) - 1) + b"12345")
    yield "array-of-arrays", "a list of lists", "UNSUPPORTED", "a list of lists", \
        value(ARRAY, array(ARRAY, 1, array(U8, 1, b"1")))
    yield "array-type-99", "a list of an unknown type", "FORMAT", "value type 99 is unknown", \
        value(ARRAY, array(99, 1, b"1"))
    yield "array-wraps", "2^62 numbers of four bytes: the size wraps to 0", "FORMAT", \
        "a list of 4611686018427387904 values", value(ARRAY, array(U32, 1 << 62, b"1234"))
    yield "array-of-texts", "2^40 texts in a file of few bytes", "FORMAT", "8 bytes are wanted", \
        value(ARRAY, array(TEXT, 1 << 40, text("a")))
    for name, n in ("0", 0), ("3", 3), ("4", 4), ("24", 24), ("8192", 8192), ("2-31", 1 << 31):
        yield "alignment-" + name, f"an alignment of {n}", "FORMAT", f"alignment {n} is no power of two", \
            keyed(int_key("general.alignment", n))
    yield "alignment-text", "an alignment by name", "FORMAT", "general.alignment is no number", \
        keyed(text_key("general.alignment", "32"))
    yield "cut-tensor", "the file ends within a tensor's entry", "FORMAT", "byte 32: 100 bytes are wanted", \
        tensor(u64(100) + bytes(30))
    yield "dims-0", "no dimension", "FORMAT", "0 dimensions", tensor(info("a", [8], T_F32, 0, n_dims=0))
    yield "dims-5", "five dimensions", "FORMAT", "5 dimensions", tensor(info("a", [1] * 5, T_F32, 0))
    yield "dims-2-32", "2^32 - 1 dimensions", "FORMAT", "4294967295 dimensions", \
        tensor(info("a", [1], T_F32, 0, n_dims=(1 << 32) - 1))
    yield "dim-zero", "a dimension of 0", "FORMAT", "dimension 0 is zero or too large", \
        tensor(info("a", [8, 0], T_F32, 0))
    yield "dim-wraps", "2^32 x 2^32: the product wraps to 0", "FORMAT", "dimension 4294967296 is zero or", \
        tensor(info("a", [1 << 32, 1 << 32], T_F32, 0))
    yield "dim-bytes-wrap", "2^62 elements of four bytes wrap to 0", "FORMAT", "byte ", \
        tensor(info("a", [1 << 62], T_F32, 0))
    yield "tensor-type-99", "an unknown type", "UNSUPPORTED", "99", tensor(info("a", [8], 99, 0))
    yield "tensor-type-gone", "type 4, which is gone", "UNSUPPORTED", "4", tensor(info("a", [8], 4, 0))
    yield "tensor-block", "8 elements of blocks of 32", "FORMAT", "byte ", tensor(info("a", [8], T_Q8_0, 0))
    yield "tensor-name-empty", "a tensor without a name", "FORMAT", "an empty tensor name", \
        tensor(info("", [8], T_F32, 0), raw=bytes(64))
    yield "tensor-name-long", "a name of 2^40 bytes", "FORMAT", "1099511627776", \
        tensor(u64(1 << 40) + bytes(40))
    yield "tensor-twice", "one tensor twice", "FORMAT", "the tensor a comes twice", \
        tensor(info("a", [8], T_F32, 0), info("a", [8], T_F32, 32), raw=bytes(64))
    yield "offset-misaligned", "an offset off the alignment", "FORMAT", "offset 4 is off the alignment of 32", \
        tensor(info("a", [8], T_F32, 4), raw=bytes(64))
    yield "offset-past-end", "an offset behind the file", "FORMAT", "byte ", \
        tensor(info("a", [8], T_F32, 1 << 20))
    yield "offset-wraps", "an offset that wraps when the bytes are added", "FORMAT", "byte ", \
        tensor(info("a", [8], T_F32, (1 << 64) - 32))
    yield "offset-overlap", "two tensors on one another", "FORMAT", "lies on another tensor", \
        tensor(info("a", [8], T_F32, 0), info("b", [8], T_F32, 0))
    yield "data-cut", "the data is shorter than its tensors", "FORMAT", "byte ", tensor(*one, raw=bytes(31))
    yield "data-missing", "no data at all", "FORMAT", "byte ", gguf([], one)
    yield from gguf_models()


def gguf_models():
    keys = model_keys()
    arch, heads = "general.architecture", "llama.attention.head_count"
    infos, _ = model_tensors()

    def model(*new, name=None):
        return gguf_model(replaced(keys, name, *new) if name else keys + list(new))

    yield "no-architecture", "no architecture", "FORMAT", "general.architecture is missing", \
        gguf_model(without(keys, arch))
    yield "architecture-number", "an architecture of type u32", "FORMAT", "general.architecture is missing or no", \
        model(int_key(arch, 1), name=arch)
    yield "architecture-other", "another architecture", "UNSUPPORTED", "architecture gpt2 is not", \
        model(text_key(arch, "gpt2"), name=arch)
    yield "architecture-escape", "a name that would colour the terminal", "UNSUPPORTED", "?[31m", \
        model(text_key(arch, "\x1b[31m"), name=arch)
    yield "heads-text", "heads by name", "FORMAT", heads + " is no whole number", \
        model(text_key(heads, "1"), name=heads)
    yield "heads-real", "heads of type f32", "FORMAT", heads + " is no whole number", \
        model(key(heads, F32, struct.pack("<f", 1)), name=heads)
    yield "heads-array", "heads for each layer", "UNSUPPORTED", heads + ": a number for each layer", \
        model(key(heads, ARRAY, array(U32, 1, u32(1))), name=heads)
    yield "heads-zero", "0 heads", "FORMAT", heads + " is 0", model(int_key(heads, 0), name=heads)
    yield "heads-negative", "-1 heads, as int64", "FORMAT", heads + " is -1", \
        model(key(heads, I64, struct.pack("<q", -1)), name=heads)
    yield "eps-nan", "an epsilon that is no number", "FORMAT", "epsilon of the norms is", \
        model(key("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", float("nan"))),
              name="llama.attention.layer_norm_rms_epsilon")
    yield "no-context", "no length of the context", "FORMAT", "the key llama.context_length is missing", \
        gguf_model(without(keys, "llama.context_length"))
    yield "theta-inf", "rope.freq_base infinite", "FORMAT", "rope_theta: from 1", \
        model(key("llama.rope.freq_base", F64, struct.pack("<d", float("inf"))))
    yield "experts", "a mixture of experts", "UNSUPPORTED", "llama.expert_count of 8", \
        model(int_key("llama.expert_count", 8))
    yield "vocab-0", "a vocabulary of 0", "FORMAT", "llama.vocab_size is 0", model(int_key("llama.vocab_size", 0))
    yield "eos-outside", "an end beyond the vocabulary", "FORMAT", "end-of-text id 8 is outside", \
        model(int_key("tokenizer.ggml.eos_token_id", 8))
    yield "tensor-missing", "no last norm", "FORMAT", "tensor output_norm.weight is missing", \
        gguf_model(infos=infos[:-1])
    yield "layers-2", "a layer that is not there", "FORMAT", "tensor blk.1.attn_norm.weight is missing", \
        model(int_key("llama.block_count", 2), name="llama.block_count")
    yield "cut", "the last byte is missing", "FORMAT", "byte ", gguf_model()[:-1]
    yield "ok-base", "nothing: a model with its tokenizer", "OK", "", gguf_model(keys + tokenizer_keys())
    yield "ok-version-2", "nothing: version 2", "OK", "", gguf_model(version=2)
    yield "ok-alignment-8", "nothing: data at multiples of 8", "OK", "", \
        gguf_model(keys + [int_key("general.alignment", 8)], alignment=8)
    yield "ok-unknown-keys", "nothing: keys of every type that nobody knows", "OK", "", model(
        key("x.u8", U8, b"\xff"), key("x.u16", U16, b"12"), key("x.f64", F64, b"\xff" * 8),
        key("x.bool", BOOL, b"\1"), key("x.text", TEXT, text(b"\xff\0\x1b")),
        key("x.none", ARRAY, array(TEXT, 0, b"")), key("x.list", ARRAY, array(I32, 2, bytes(8))))
    yield "ok-one-file-split", "nothing: split.count 1", "OK", "", \
        model(key("split.count", U16, b"\1\0"), key("split.no", U16, b"\0\0"))
    yield "ok-order", "nothing: keys and tensors in reverse order", "OK", "", gguf_model(keys[::-1], infos[::-1])
    yield "ok-tail", "nothing: bytes behind the last tensor", "OK", "", gguf_model() + b"tail"


def split_cases():
    """name, what is wrong, status, part of the message, {file: bytes}; the first is opened"""
    infos, data = model_tensors()

    def first(count=2, no=0, n_tensors=len(infos), more=()):
        keys = model_keys() + [key("split.count", U16, struct.pack("<H", count)),
                               key("split.no", U16, struct.pack("<H", no)),
                               key("split.tensors.count", I32, struct.pack("<i", n_tensors)), *more]
        return gguf(keys, infos[:5], data[:576 + 64])

    def second(count=2, no=1, some=None):
        rest, raw = [], b""
        for name, dims, kind, n in SECOND:
            raw += bytes(-len(raw) % 32)
            rest.append(info(name, dims, kind, len(raw)))
            raw += floats(n, 11, "F16" if kind == T_F16 else "F32")
        return gguf([key("split.count", U16, struct.pack("<H", count)),
                     key("split.no", U16, struct.pack("<H", no))], rest if some is None else some, raw)

    def files(a, b=None, names=("m-00001-of-00002.gguf", "m-00002-of-00002.gguf")):
        return {names[0]: a, **({names[1]: b} if b else {})}

    yield "missing", "the second file is not there", "IO", "m-00002-of-00002.gguf", files(first())
    yield "second-first", "the second file under the name of the first", "FORMAT", \
        "file 2 of 2 where 1 should be", files(first(no=1), second())
    yield "same-twice", "the first file under both names", "FORMAT", "file 1 of 2 where 2 should be", \
        files(first(), first())
    yield "name", "a name that does not say which file it is", "FORMAT", "does not say -00001-of-00002.gguf", \
        files(first(), second(), ("model.gguf", "other.gguf"))
    yield "count-huge", "32,767 files", "FORMAT", "32767 files", files(first(count=32767))
    yield "count-differs", "the second says 3 files", "FORMAT", "split.count is 3, 2 in the first file", \
        files(first(), second(count=3))
    yield "tensors-differ", "the number of all tensors is another", "FORMAT", "split.tensors.count says 99", \
        files(first(n_tensors=99), second())
    yield "tensor-in-both", "a tensor in both files", "FORMAT", "token_embd.weight comes twice", \
        files(first(n_tensors=6), second(some=[info("token_embd.weight", [8], T_F32, 0)]))
    yield "second-bad", "the second file is cut", "FORMAT", "m-00002-of-00002.gguf: byte ", \
        files(first(), second()[:100])
    yield "ok-two", "nothing", "OK", "", files(first(), second())


# What the second file holds: name, dimensions innermost first, type, elements.
SECOND = [("blk.0.attn_output.weight", [H, H], T_F16, H * H), ("blk.0.ffn_norm.weight", [H], T_F32, H),
          ("blk.0.ffn_gate.weight", [H, 4], T_F16, 4 * H), ("blk.0.ffn_up.weight", [H, 4], T_F16, 4 * H),
          ("blk.0.ffn_down.weight", [4, H], T_F16, 4 * H), ("output_norm.weight", [H], T_F32, H)]


# ---------------------------------------------------------------- llama2.c

def llama2c_cases():
    """name, what is wrong, status, part of the message, bytes"""
    def header(*values, n=0):
        return llama2c(values, n_floats=n)

    good = llama2c()
    yield "empty", "no byte at all", "FORMAT", "the file is empty", b""
    yield "short", "27 of 28 bytes of the header", "FORMAT", "byte 27: neither safetensors nor GGUF", good[:27]
    yield "text", "a text", "FORMAT", "no weight file at all", b"Once upon a time there was a text file.\n"
    yield "dim-0", "dim 0", "FORMAT", "byte 0: llama2c.dim is 0", header(0, 4, 1, 1, 1, 8, 8)
    yield "layers-negative", "-1 layers", "FORMAT", "byte 8: llama2c.n_layers is -1", header(8, 4, -1, 1, 1, 8, 8)
    yield "heads-0", "0 heads: dim / 0", "FORMAT", "byte 12: llama2c.n_heads is 0", header(8, 4, 1, 0, 1, 8, 8)
    yield "kv-heads-0", "0 KV heads: heads % 0", "FORMAT", "byte 16: llama2c.n_kv_heads is 0", \
        header(8, 4, 1, 1, 0, 8, 8)
    yield "heads-3", "8 in 3 heads", "FORMAT", "3 heads do not cut dim 8", header(8, 4, 1, 3, 1, 8, 8)
    yield "heads-8", "heads of one element have no pairs", "FORMAT", "8 heads do not cut dim 8", \
        header(8, 4, 1, 8, 1, 8, 8)
    yield "kv-heads-3", "4 heads, 3 KV heads", "FORMAT", "4 heads are no multiple of 3", header(8, 4, 1, 4, 3, 8, 8)
    yield "vocab-min", "a vocabulary of -2^31, whose negation no int32 holds", "FORMAT", "where a llama2.c header", \
        header(8, 4, 1, 1, 1, -(1 << 31), 8)
    yield "all-large", "numbers whose products pass 2^64", "FORMAT", "sizes overflow", \
        header(2**31 - 2, 2**31 - 1, 2**31 - 1, 1, 1, 2**31 - 1, 2**31 - 1)
    yield "version-1", "the exporter's newer format", "UNSUPPORTED", "llama2.c version 1: export with", \
        struct.pack("<Ii", 0x616b3432, 1) + bytes(248)
    yield "cut", "one byte less", "FORMAT", "byte 2043: 2043 bytes, where a llama2.c header implies 2044", good[:-1]
    yield "longer", "one byte more", "FORMAT", "byte 2044: 2045 bytes", good + b"\0"
    yield "ok-base", "nothing", "OK", "", good
    yield "ok-head", "nothing: a negative vocabulary, which means a head of its own", "OK", "", \
        llama2c((H, 4, 1, 1, 1, -V, 8))
    yield "ok-one-token", "nothing: a vocabulary of one", "OK", "", llama2c((H, 4, 1, 1, 1, 1, 8))
