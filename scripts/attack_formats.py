"""Writers of the formats that tests/attacks holds, and the one tiny model that its files are made
from: vocabulary 8, hidden 8, one layer, one head of 8, ffn 4, context 64. Weights follow a rule, so
that nothing depends on a library of random numbers."""
import json
import struct

V, H, F, CONTEXT = 8, 8, 4, 64

# Names of Hugging Face and of GGUF, rows, columns (0: a vector).
MATRICES = [
    ("model.embed_tokens.weight", "token_embd.weight", V, H),
    ("model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight", H, 0),
    ("model.layers.0.self_attn.q_proj.weight", "blk.0.attn_q.weight", H, H),
    ("model.layers.0.self_attn.k_proj.weight", "blk.0.attn_k.weight", H, H),
    ("model.layers.0.self_attn.v_proj.weight", "blk.0.attn_v.weight", H, H),
    ("model.layers.0.self_attn.o_proj.weight", "blk.0.attn_output.weight", H, H),
    ("model.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight", H, 0),
    ("model.layers.0.mlp.gate_proj.weight", "blk.0.ffn_gate.weight", F, H),
    ("model.layers.0.mlp.up_proj.weight", "blk.0.ffn_up.weight", F, H),
    ("model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", H, F),
    ("model.norm.weight", "output_norm.weight", H, 0),
]
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": V, "hidden_size": H,
    "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1,
    "intermediate_size": F, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": 2,
}
FLOAT_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def floats(n, salt, dtype):
    """n values in [-0.5, 0.5), exact in every type."""
    values = [((k * 2654435761 + salt * 40503) >> 8) % 64 / 64 - 0.5 for k in range(n)]
    if dtype == "F32":
        return struct.pack(f"<{n}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{n}e", *values)
    return b"".join(struct.pack("<f", v)[2:] for v in values)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


def u32(n):
    return struct.pack("<I", n)


def u64(n):
    return struct.pack("<Q", n)


# ---------------------------------------------------------------- safetensors

def safetensors(header, data=b"", length=None):
    """`header`: bytes as they are, or an object. `length`: what the file says about it."""
    text = header if isinstance(header, bytes) else compact(header)
    return u64(len(text) if length is None else length) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def model_header(dtype="BF16", names=None, change=None):
    """(header, data) of the tiny model, or of some of its tensors. change: name -> (dtype, shape,
    bytes), to replace one or add one; None: leave it out."""
    tensors = {}
    for salt, (name, _, rows, cols) in enumerate(MATRICES):
        if names is None or name in names:
            shape = [rows, cols] if cols else [rows]
            tensors[name] = (dtype, shape, floats(rows * max(cols, 1), salt, dtype))
    for name, new in (change or {}).items():
        if new is None:
            del tensors[name]
        else:
            tensors[name] = new
    header, data = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = entry(kind, shape, len(data), len(data) + len(raw))
        data += raw
    return header, data


# ---------------------------------------------------------------- GGUF

U8, I8, U16, I16, U32, I32, F32, BOOL, TEXT, ARRAY, U64, I64, F64 = range(13)
T_F32, T_F16, T_Q8_0 = 0, 1, 8


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return u64(len(raw)) + raw


def key(name, kind, raw):
    return text(name) + u32(kind) + raw


def int_key(name, n):
    return key(name, U32, u32(n))


def text_key(name, s):
    return key(name, TEXT, text(s))


def array(kind, n, raw):
    return u32(kind) + u64(n) + raw


PIECES = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "ab", "\u2581a"]
SCORES = [0, 0, 0, -4, -5, -6, -1, -2]
TYPES = [2, 3, 3, 1, 1, 1, 1, 1]


def tokenizer_keys():
    n = len(PIECES)
    return [
        text_key("tokenizer.ggml.model", "llama"),
        key("tokenizer.ggml.tokens", ARRAY, array(TEXT, n, b"".join(map(text, PIECES)))),
        key("tokenizer.ggml.scores", ARRAY, array(F32, n, struct.pack(f"<{n}f", *SCORES))),
        key("tokenizer.ggml.token_type", ARRAY, array(I32, n, struct.pack(f"<{n}i", *TYPES))),
        int_key("tokenizer.ggml.bos_token_id", 1),
        int_key("tokenizer.ggml.eos_token_id", 2),
    ]


def model_keys():
    return [
        text_key("general.architecture", "llama"),
        int_key("llama.embedding_length", H),
        int_key("llama.feed_forward_length", F),
        int_key("llama.block_count", 1),
        int_key("llama.attention.head_count", 1),
        int_key("llama.context_length", CONTEXT),
        key("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
    ]


def without(keys, name):
    return [k for k in keys if not k.startswith(text(name))]


def replaced(keys, name, new):
    """With another entry in the place of that of this name."""
    return [new if k.startswith(text(name)) else k for k in keys]


def info(name, dims, kind, offset, n_dims=None):
    return (text(name) + u32(len(dims) if n_dims is None else n_dims) + b"".join(map(u64, dims)) +
            u32(kind) + u64(offset))


def gguf(keys, infos=(), data=b"", version=3, n_tensors=None, n_keys=None, alignment=32):
    out = (b"GGUF" + u32(version) + u64(len(infos) if n_tensors is None else n_tensors) +
           u64(len(keys) if n_keys is None else n_keys) + b"".join(keys) + b"".join(infos))
    return out + bytes(-len(out) % alignment) + data if data else out


def model_tensors(alignment=32):
    """(infos, data) of the tiny model, in F16; norms in F32."""
    infos, data = [], b""
    for salt, (_, name, rows, cols) in enumerate(MATRICES):
        data += bytes(-len(data) % alignment)
        dims = [cols, rows] if cols else [rows]
        kind = "F16" if cols else "F32"
        infos.append(info(name, dims, T_F16 if cols else T_F32, len(data)))
        data += floats(rows * max(cols, 1), salt, kind)
    return infos, data


def gguf_model(keys=None, infos=None, **how):
    own, data = model_tensors(how.get("alignment", 32))
    return gguf(model_keys() if keys is None else keys, own if infos is None else infos, data, **how)


# ---------------------------------------------------------------- llama2.c

def llama2c(header=(H, F, 1, 1, 1, V, 8), n_floats=None):
    dim, hidden, layers, heads, _, vocab, seq = header
    if n_floats is None:
        n_floats = (abs(vocab) * dim * (1 if vocab > 0 else 2) + layers * (2 * dim + 4 * dim * dim +
                    3 * dim * hidden) + dim + seq * (dim // heads))
    return struct.pack("<7i", *header) + floats(n_floats, 7, "F32")


def tok512(n=260, longest=6, change=None):
    """259 fixed pieces and some more. change: id -> (score, said length, text)."""
    out = u32(longest)
    for k in range(n):
        fixed = ["<unk>", "\n<s>\n", "\n</s>\n"]
        piece = fixed[k] if k < 3 else f"<0x{k - 3:02X}>" if k < 259 else chr(97 + k - 259)
        score, said, raw = (change or {}).get(k, (float(-k), None, piece.encode()))
        out += struct.pack("<f", score) + u32(len(raw) if said is None else said) + raw
    return out


# ---------------------------------------------------------------- SentencePiece

def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, raw):
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def number(field_number, n):
    return varint(field_number << 3) + varint(n)


def piece(s, score, kind):
    raw = s if isinstance(s, bytes) else s.encode()
    return field(1, field(1, raw) + varint(2 << 3 | 5) + struct.pack("<f", score) + number(3, kind))


def spm_settings(model_type=2, trainer=b"", normaliser=b""):
    return field(2, number(3, model_type) + trainer) + field(3, number(4, 0) + normaliser)


def spm_pieces():
    return b"".join(piece(s, score, kind) for s, score, kind in zip(PIECES, SCORES, TYPES))
