"""Attacks on tokenizer files and on requests: what each file is, what is wrong with it, and what
opening it must say. `ok-` files are odd and must open."""
import base64
import struct

from attack_formats import (
    ARRAY, F32, I32, PIECES, TEXT, array, compact, field, gguf, int_key, key, number, piece,
    replaced, spm_pieces, spm_settings, text, text_key, tok512, tokenizer_keys, varint, without)


def json_cases():
    """tokenizer.json: name, what is wrong, status, part of the message, bytes"""
    model = {"type": "BPE", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}
    root = {"model": model, "pre_tokenizer": {"type": "ByteLevel"},
            "added_tokens": [{"id": 4, "content": "<s>", "special": True}]}

    def of(_without=(), **change):
        return compact({k: v for k, v in {**root, **change}.items() if k not in _without})

    def with_model(_without=(), **change):
        return of(model={k: v for k, v in {**model, **change}.items() if k not in _without})

    def added(*tokens):
        return of(added_tokens=list(tokens))

    def split(pattern, **more):
        step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", **more}
        return of(pre_tokenizer={"type": "Sequence", "pretokenizers": [
            step, {"type": "ByteLevel", "use_regex": False}]})

    def template(single, **special):
        return of(post_processor={"type": "TemplateProcessing", "single": single, "special_tokens": special})

    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    bos_ids = {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}}
    yield "empty", "no byte at all", "FORMAT", "byte 0: the file is empty", b""
    yield "cut", "the file ends within a text", "FORMAT", "byte 20: no JSON object", of()[:20]
    yield "list", "a list, found by its name", "FORMAT", "byte 0: no JSON object", b"[1]"
    yield "deep", "2,100 lists within one another", "FORMAT", "no JSON object", b'{"model":' + b"[" * 2100
    yield "not-utf8", "a byte that UTF-8 does not have", "FORMAT", "no JSON object", of()[:-1] + b',"x":"\xff"}'
    yield "key-twice", "the model twice", "FORMAT", "no JSON object", b'{"model":{},' + of()[1:]
    yield "no-model", "no model", "FORMAT", "model: missing: neither tokenizer.json nor GPT-2's encoder.json", \
        of(["model"])
    yield "model-number", "the model is a number", "FORMAT", "model: no object", of(model=1)
    yield "unigram", "a unigram model", "UNSUPPORTED", "model.type is not BPE: Unigram", with_model(type="Unigram")
    yield "vocab-list", "the vocabulary is a list", "FORMAT", "model.vocab: no object", with_model(vocab=[])
    yield "merges-object", "merges are an object", "FORMAT", "model.merges: no array", with_model(merges={})
    yield "id-text", "an id that is a text", "FORMAT", "an entry without id", with_model(vocab={"u": "0"})
    yield "id-negative", "id -1", "FORMAT", "an entry without id", with_model(vocab={"u": 0, "a": -1})
    yield "id-far", "id 2^31 - 1 among three: a table of 2^31 entries", "FORMAT", "one far beyond their number", \
        with_model(vocab={"u": 0, "a": 2**31 - 1}, merges=[])
    yield "id-twice", "two pieces of one id", "FORMAT", "an id comes twice", \
        with_model(vocab={"u": 0, "a": 1, "b": 1}, merges=[])
    yield "unk-missing", "an unk_token that is not there", "FORMAT", "model.unk_token: not in the vocabulary", \
        with_model(unk_token="?")
    yield "no-bytes", "neither all bytes nor an unk_token", "FORMAT", "no piece for byte 0x00", \
        with_model(["unk_token"])
    yield "merge-unknown", "a merge of a piece that is not there", "FORMAT", "model.merges: 1 is no new pair", \
        with_model(merges=["a b", "a c"])
    yield "merge-twice", "a merge twice", "FORMAT", "model.merges: 1 is no new pair", with_model(merges=["a b"] * 2)
    yield "merge-word", "a merge without a blank", "FORMAT", "model.merges: 0 is no new pair", \
        with_model(merges=["ab"])
    yield "merge-three", "a merge of three", "FORMAT", "model.merges: 0 is no new pair", \
        with_model(merges=[["a", "b", "c"]])
    yield "suffix", "a suffix at the end of words", "UNSUPPORTED", "end_of_word_suffix", \
        with_model(end_of_word_suffix="</w>")
    yield "dropout", "merges left out at random", "UNSUPPORTED", "dropout", with_model(dropout=0.1)
    yield "added-object", "added_tokens are an object", "FORMAT", "added_tokens: no array", of(added_tokens={})
    yield "added-no-id", "an added token without id", "FORMAT", "one without id or content", added({"content": "x"})
    yield "added-empty", "an added token without text, which is everywhere", "FORMAT", "one without id or content", \
        added({"id": 4, "content": ""})
    yield "added-twice", "two added tokens of one id", "FORMAT", "added_tokens: two of one id", \
        added({"id": 4, "content": "x"}, {"id": 4, "content": "y"})
    yield "added-other-id", "an added token with another id in the vocabulary", "FORMAT", \
        "one has another id in the vocabulary", added({"id": 4, "content": "ab"})
    yield "normalizer", "a normalizer that is not offered", "UNSUPPORTED", "normalizer: Lowercase", \
        of(normalizer={"type": "Lowercase"})
    yield "normalizer-escape", "a name that would colour the terminal", "UNSUPPORTED", "?[31m", \
        of(normalizer={"type": "\x1b[31m"})
    yield "step-without-type", "a step without a type", "FORMAT", "pre_tokenizer: a step without type", \
        of(pre_tokenizer={})
    yield "no-steps", "no step says how bytes are written", "UNSUPPORTED", "neither ByteLevel nor spaces", \
        of(["pre_tokenizer"])
    yield "pattern", "an expression that does not compile", "FORMAT", "the splitter's expression at 2: missing", \
        split("(a")
    yield "pattern-code-unit", "an expression that cuts characters into bytes", "FORMAT", "\\C is disabled", \
        split("\\C")
    yield "pattern-long", "an expression that is nested 300 deep", "FORMAT", "the splitter's expression at", \
        split("(" * 300 + "a" + ")" * 300)
    yield "split-removed", "a splitter that removes what it finds", "UNSUPPORTED", "Split other than Isolated", \
        split("a", behavior="Removed")
    yield "template-no-id", "a special token that the file does not have", "FORMAT", \
        "a special token without id", template([bos])
    yield "template-two", "two tokens in front", "UNSUPPORTED", "two special tokens on one side", \
        template([bos, bos], **bos_ids)
    yield "ok-base", "nothing", "OK", "", of()
    yield "ok-byte-order-mark", "nothing that counts: blanks in front", "OK", "", b" \r\n\t" + of()
    yield "ok-unknown-keys", "nothing: keys that nobody knows", "OK", "", of(version="9", truncation=None, x=[{}])
    yield "ok-holes", "nothing: ids with holes between them", "OK", "", \
        with_model(vocab={"u": 0, "a": 100, "b": 50, "ab": 7})
    yield "ok-merge-lists", "nothing: merges as lists", "OK", "", with_model(merges=[["a", "b"]])
    yield "ok-stale-merge", "nothing: a merge into an added token is left out", "OK", "", \
        of(added_tokens=[{"id": 3, "content": "ab", "special": False}])
    yield "ok-template", "nothing: a token in front", "OK", "", template([bos, {"Sequence": {"id": "A"}}], **bos_ids)
    yield "ok-pattern-recursive", "nothing: an expression that calls itself without end is cut off", "OK", "", \
        split("(?R)|a")
    yield "ok-pattern-slow", "nothing: an expression that tries 2^n ways is cut off", "OK", "", split("(a*)*(b*)*c")
    yield "ok-pattern-callout", "nothing: an expression that calls out, where nobody listens", "OK", "", \
        split("a(?C1)b")
    yield "ok-pattern", "nothing: an expression of its own", "OK", "", split("\\p{L}+|\\s|.")


def tiktoken_cases():
    """Opened with the splitter gpt2. name, what is wrong, status, part of the message, bytes"""
    def line(raw, rank):
        return base64.b64encode(raw) + f" {rank}\n".encode()

    all_bytes = b"".join(line(bytes([b]), b) for b in range(256))
    yield "empty", "no byte at all", "FORMAT", "the file is empty", b""
    yield "no-base64", "a character that base64 does not have", "FORMAT", "line 1: no base64", b"I-== 0\n"
    yield "base64-cut", "three characters", "FORMAT", "line 2: no base64", b"IQ== 0\nIg= 1\n"
    yield "padding-inside", "= within a text", "FORMAT", "line 1: no base64", b"I=Q= 0\n"
    yield "no-blank", "no blank in front of the rank", "FORMAT", "line 2: expected", b"IQ== 0\nIg==1\n"
    yield "two-blanks", "two blanks", "FORMAT", "line 1: no rank", b"IQ==  0\n"
    yield "no-rank", "no rank", "FORMAT", "line 2: no rank", b"IQ== 0\nIg== \n"
    yield "rank-negative", "rank -1", "FORMAT", "line 1: no rank", b"IQ== -1\n"
    yield "rank-long", "a rank of 20 digits", "FORMAT", "line 1: no rank", b"IQ== 18446744073709551616\n"
    yield "rank-far", "rank 999,999,999 in a file of two lines: a table of as many", "FORMAT", \
        "rank 999999999 in a file of 3 lines", b"IQ== 0\nIg== 999999999\n"
    yield "rank-twice", "one rank twice", "FORMAT", "line 2: rank 0 comes twice", b"IQ== 0\nIg== 0\n"
    yield "piece-twice", "one piece twice", "FORMAT", "pieces 33 and 256 are the same", all_bytes + b"IQ== 256\n"
    yield "byte-missing", "no piece for byte 255", "FORMAT", "no piece for byte 0xFF", \
        b"".join(line(bytes([b]), b) for b in range(255))
    yield "zero", "a zero byte in a line", "FORMAT", "line 1: no base64", b"IQ=\0 0\n"
    yield "ok-base", "nothing", "OK", "", all_bytes + line(b"ab", 256) + line(b"abc", 300)
    yield "ok-line-ends", "nothing: CR LF, empty lines, none at the end", "OK", "", \
        (all_bytes + b"\n\n" + line(b"ab", 256)).replace(b"\n", b"\r\n")[:-2]


def spm_cases():
    """name, what is wrong, status, part of the message, bytes"""
    pieces, settings = spm_pieces(), spm_settings()

    def more(extra):
        return pieces + extra + settings

    yield "empty", "no byte at all", "FORMAT", "the file is empty", b""
    yield "no-piece", "no piece", "FORMAT", "byte 0: no piece", settings
    yield "number-endless", "a number of 11 bytes", "FORMAT", "byte 1: a number of more than 64 bits", \
        b"\x0a" + b"\xff" * 10 + b"\1"
    yield "number-cut", "the file ends within a number", "FORMAT", "ends within a number", pieces + b"\x0a\xff"
    yield "length-2-64", "a field of 2^64 - 1 bytes: negative to some", "FORMAT", \
        "byte 1: a field of 18446744073709551615 bytes", b"\x0a" + varint((1 << 64) - 1)
    yield "length-past-end", "a piece longer than the file", "FORMAT", "ends behind its message", \
        pieces + b"\x0a\x20\x0a\x01a"
    yield "length-past-piece", "a text longer than its piece", "FORMAT", "a field of 3 bytes ends behind", \
        pieces + b"\x0a\x04\x0a\x03ab"
    yield "group", "a group, which is long gone", "FORMAT", "wire type 3 is not known", pieces + b"\x0b"
    yield "field-0", "a field of number 0", "FORMAT", "no such field number", pieces + b"\2\0"
    yield "piece-number", "a piece that is a number", "FORMAT", "field 1 has wire type 0", pieces + number(1, 5)
    yield "piece-type-7", "a piece of type 7", "FORMAT", "a piece of type 7", more(piece("x", 0, 7))
    yield "piece-empty", "a piece without text", "FORMAT", "a piece without text", more(piece("", 0, 1))
    yield "score-nan", "a score that is no number", "FORMAT", "a score that is no number", \
        more(piece("x", float("nan"), 1))
    yield "byte-name", "a byte that is no number", "FORMAT", "piece 8 is no new byte", more(piece("<0xG0>", 0, 6))
    yield "byte-twice", "one byte twice", "FORMAT", "piece 9 is no new byte", more(piece("<0x41>", 0, 6) * 2)
    yield "unigram", "a unigram model", "UNSUPPORTED", "a unigram model; offered are BPE models", \
        pieces + spm_settings(1)
    yield "model-2-64", "a model of type 2^64 - 1", "UNSUPPORTED", "a unknown model", \
        pieces + spm_settings((1 << 64) - 1)
    yield "no-settings", "pieces alone: what is not said is unigram", "UNSUPPORTED", "a unigram model", pieces
    yield "map", "a map of characters", "UNSUPPORTED", "a normaliser with a character map", \
        pieces + spm_settings(normaliser=field(2, b"xyz"))
    yield "suffix", "spaces behind words", "UNSUPPORTED", "spaces as suffixes", \
        pieces + spm_settings(trainer=number(24, 1))
    yield "bos-outside", "a beginning beyond the pieces", "FORMAT", "begin id 8, of 8 pieces", \
        pieces + spm_settings(trainer=number(41, 8))
    yield "no-unknown", "neither bytes nor an unknown piece", "FORMAT", "no piece for byte 0x00", \
        pieces + spm_settings(trainer=number(40, (1 << 64) - 1))
    yield "ok-base", "nothing", "OK", "", pieces + settings
    yield "ok-order", "nothing: settings in front", "OK", "", settings + pieces
    yield "ok-unknown-fields", "nothing: fields of all wire types that nobody knows", "OK", "", more(
        number(99, 1) + field(98, b"\xff") + varint(97 << 3 | 5) + b"1234" + varint(96 << 3 | 1) + b"12345678")
    yield "ok-piece-twice", "nothing: a piece twice; the first counts", "OK", "", more(piece("ab", -9, 1))
    yield "ok-no-ends", "nothing: no token for beginning and end", "OK", "", \
        pieces + spm_settings(trainer=number(41, (1 << 64) - 1) + number(42, (1 << 64) - 1))


def bpe_cases():
    """vocab.bpe and encoder.json: name, what is wrong, status, part of the message, {file: bytes}"""
    def pair(merges, encoder='{"a":0,"b":1,"ab":2,"<|endoftext|>":3}'):
        return {"vocab.bpe": merges, "encoder.json": encoder.encode()}

    yield "encoder-list", "a list for encoder.json", "FORMAT", "encoder.json: byte 0: no JSON object", \
        pair(b"a b\n", "[]")
    yield "encoder-cut", "encoder.json ends within a text", "FORMAT", "encoder.json: byte 5", pair(b"a b\n", '{"a":')
    yield "id-text", "an id that is a text", "FORMAT", "entry 0 has no id", pair(b"a b\n", '{"a":"b"}')
    yield "id-far", "an id far beyond the entries", "FORMAT", "far beyond the number", pair(b"a b\n", '{"a":1000000}')
    yield "id-twice", "two pieces of one id", "FORMAT", "has the id of another", pair(b"a b\n", '{"a":0,"b":0}')
    yield "byte-missing", "neither all bytes nor <|endoftext|>", "FORMAT", "no piece for byte 0x00", \
        pair(b"a b\n", '{"a":0}')
    yield "empty-merges", "no byte in vocab.bpe", "FORMAT", "vocab.bpe: byte 0: the file is empty", pair(b"")
    yield "merge-unknown", "a merge of a piece that is not there", "FORMAT", "vocab.bpe: line 2: no new pair", \
        pair(b"#version: 0.2\na c\n")
    yield "merge-word", "a line of one word", "FORMAT", "vocab.bpe: line 1: no new pair", pair(b"ab\n")
    yield "merge-half", "a line that ends behind the blank", "FORMAT", "line 1: no new pair", pair(b"a \n")
    yield "merge-twice", "one merge twice", "FORMAT", "line 3: no new pair", pair(b"a b\n\na b\n")
    yield "merge-not-printable", "a byte that the alphabet does not have", "FORMAT", "line 1: no new pair", \
        pair(b"a \xff\n")
    yield "encoder-missing", "vocab.bpe alone", "IO", "encoder.json", {"vocab.bpe": b"a b\n"}
    yield "ok-base", "nothing", "OK", "", pair(b"#version: 0.2\na b\n")
    yield "ok-line-ends", "nothing: CR LF, and none at the end", "OK", "", pair(b"#version: 0.2\r\na b")


def tok512_cases():
    """llama2.c: name, what is wrong, status, part of the message, bytes, vocab_size"""
    nan = float("nan")
    yield "empty", "no byte at all", "FORMAT", "the file is empty", b"", 260
    yield "short", "three bytes", "FORMAT", "byte 0: a file of 3 bytes", b"\6\0\0", 260
    yield "vocab-missing", "nobody says how many pieces", "INVALID_ARG", "give vocab_size", tok512(), 0
    yield "vocab-258", "fewer pieces than the fixed ones", "FORMAT", "vocab_size 258 is less than 259", tok512(), 258
    yield "vocab-small", "a piece more than is said", "FORMAT", "9 bytes are left after 259 pieces", tok512(), 259
    yield "vocab-large", "a piece less than is said", "FORMAT", "the file ends before piece 260", tok512(), 261
    yield "vocab-2-31", "2^31 - 1 pieces", "FORMAT", "the file ends before piece 260", tok512(), 2**31 - 1
    yield "piece-2-32", "a piece of 2^32 - 1 bytes", "FORMAT", "byte 8: piece 0 of 4294967295 bytes", \
        tok512(change={0: (0.0, 2**32 - 1, b"<unk>")}), 260
    yield "piece-longer", "a piece longer than the longest", "FORMAT", "piece 2 has 6 bytes, the longest", \
        tok512(longest=5), 260
    yield "score-nan", "a score that is no number", "FORMAT", "a score that is no number", \
        tok512(change={1: (nan, None, b"<s>")}), 260
    yield "byte-name", "a byte by another name", "FORMAT", "piece 3 is no new byte", \
        tok512(change={3: (0.0, None, b"<0xzz>")}), 260
    yield "byte-twice", "one byte twice", "FORMAT", "piece 4 is no new byte", \
        tok512(change={4: (0.0, None, b"<0x00>")}), 260
    yield "cut", "the last byte is missing", "FORMAT", "piece 259 of 1 bytes ends behind the file", tok512()[:-1], 260
    yield "ok-base", "nothing", "OK", "", tok512(), 260
    yield "ok-longest", "nothing: a longest piece of 2^31", "OK", "", tok512(longest=1 << 31), 260


def gguf_tokenizer_cases():
    """name, what is wrong, status, part of the message, bytes"""
    keys = tokenizer_keys()
    n = len(PIECES)
    tokens, scores, types = (f"tokenizer.ggml.{k}" for k in ("tokens", "scores", "token_type"))
    bpe = [text_key("tokenizer.ggml.model", "gpt2"), text_key("tokenizer.ggml.pre", "gpt-2")]

    def other(name, new):
        return gguf(replaced(keys, name, new))

    yield "none", "no tokenizer in it", "FORMAT", "tokenizer.ggml.model: missing", gguf([])
    yield "kind", "a tokenizer of another kind", "UNSUPPORTED", "a tokenizer of type bert", \
        other("tokenizer.ggml.model", text_key("tokenizer.ggml.model", "bert"))
    yield "tokens-numbers", "tokens that are numbers", "FORMAT", "tokens: no array of strings", \
        other(tokens, key(tokens, ARRAY, array(I32, 1, bytes(4))))
    yield "tokens-none", "no token", "FORMAT", "tokens: none, or too many", \
        other(tokens, key(tokens, ARRAY, array(TEXT, 0, b"")))
    yield "scores-missing", "no scores", "FORMAT", "scores: missing", gguf(without(keys, scores))
    yield "scores-few", "seven scores for eight tokens", "FORMAT", "scores: not one f32 for each token", \
        other(scores, key(scores, ARRAY, array(F32, n - 1, bytes(4 * (n - 1)))))
    yield "scores-nan", "a score that is no number", "FORMAT", "scores: one is no number", \
        other(scores, key(scores, ARRAY, array(F32, n, struct.pack("<f", float("nan")) * n)))
    yield "types-0", "tokens of type 0", "FORMAT", "token_type: one is not 1 to 6", \
        other(types, key(types, ARRAY, array(I32, n, bytes(4 * n))))
    yield "bos-outside", "a beginning beyond the tokens", "FORMAT", "bos_token_id: no such token", \
        other("tokenizer.ggml.bos_token_id", int_key("tokenizer.ggml.bos_token_id", n))
    yield "no-merges", "byte-level BPE without merges", "FORMAT", "merges: no array of strings", gguf(
        bpe + keys[1:2] + [int_key("tokenizer.ggml.unknown_token_id", 0)])
    yield "splitter-unknown", "a splitter that nobody knows", "UNSUPPORTED", "splitter x is not known", gguf(
        [bpe[0], text_key("tokenizer.ggml.pre", "x")] + keys[1:2])
    yield "ok-base", "nothing", "OK", "", gguf(keys)
    yield "ok-no-types", "nothing: tokens without types", "OK", "", gguf(without(keys, types))


def requests_cases():
    """Lines for pkv-generate, with the tiny GGUF model and its tokenizer: name, what is wrong, exit
    status, part of the message, bytes"""
    def lines(*values):
        return b"".join(compact(v) + b"\n" for v in values)

    good = {"ids": [1, 4, 5], "max_tokens": 3}

    def one(**change):
        return lines({**good, **change})

    def second(value):
        return lines(good) + (value if isinstance(value, bytes) else compact(value)) + b"\n"

    yield "empty", "no byte at all", 2, "no requests", b""
    yield "blank-lines", "empty lines alone", 2, "no requests", b"\n \n\t\n"
    yield "not-json", "a line that is no JSON", 2, ":2:4: not JSON", second(b"Once upon a time")
    yield "cut", "a line that ends within a text", 2, ":2:", second(b'{"prompt":"a')
    yield "list", "a list", 2, ":2:1: not an object", second([1])
    yield "two-objects", "two objects on a line", 2, "not JSON", second(compact(good) + compact(good))
    yield "deep", "2,100 lists within one another", 2, "not JSON: maximum parsing depth", \
        b'{"id":' + b"[" * 2100 + b"\n"
    yield "not-utf8", "a byte that UTF-8 does not have", 2, ":2:", second(b'{"prompt":"\xff"}')
    yield "key-twice", "one key twice", 2, "duplicate object key", second(b'{"ids":[1],"ids":[1]}')
    yield "key-unknown", "a word that is spelled wrongly", 2, 'did you mean "max_tokens"?', one(max_token=1)
    yield "key-escape", "a key that would colour the terminal", 2, "unknown key", one(**{"\x1b[31m": 1})
    yield "key-alias", "one thing under two names", 2, "are the same", one(max_new_tokens=3)
    yield "no-prompt", "no prompt", 2, ":2:1: no prompt", second({"max_tokens": 3})
    yield "prompt-and-ids", "a text and ids", 2, "give one of them", one(prompt="a")
    yield "prompt-number", "a prompt that is a number", 2, '"prompt" wants a text', second({"prompt": 1})
    yield "ids-empty", "no id", 2, '"ids" wants token ids, at least one', second({"ids": []})
    yield "ids-negative", "id -1", 2, '"ids" wants token ids only', second({"ids": [1, -1]})
    yield "ids-real", "id 1.0", 2, '"ids" wants token ids only', second({"ids": [1.0]})
    yield "ids-2-31", "id 2^31", 2, '"ids" wants token ids only', second({"ids": [1 << 31]})
    yield "ids-outside", "id 8 of 8", 2, ":2:", second({"ids": [8]})
    yield "max-tokens-0", "no token", 2, '"max_tokens" wants a whole number from 1', one(max_tokens=0)
    yield "max-tokens-2-63", "2^63 tokens", 2, "too big integer", second(b'{"ids":[1],"max_tokens":9223372036854775808}')
    yield "max-tokens-text", "a number as a text", 2, '"max_tokens" wants a whole number', one(max_tokens="3")
    yield "temperature-negative", "temperature -1", 2, '"temperature" wants a number from 0', one(temperature=-1)
    yield "temperature-nan", "a number that JSON does not have", 2, "not JSON", \
        second(b'{"ids":[1],"temperature":NaN}')
    yield "temperature-overflow", "1e999", 2, "real number overflow", second(b'{"ids":[1],"temperature":1e999}')
    yield "top-p-0", "top_p 0", 2, '"top_p" wants a number above 0', one(top_p=0)
    yield "n-0", "no sample", 2, '"n" wants a whole number from 1', one(n=0)
    yield "beams-17", "17 beams", 2, '"beams" wants a whole number from 0 to 16', one(beams=17)
    yield "beams-and-draws", "beams with a temperature", 2, "beams draw nothing", one(beams=2, temperature=1)
    yield "n-above-beams", "more returned than there are beams", 2, "n is above the number of beams", one(beams=2, n=3)
    yield "stop-empty", "an empty stop text", 2, "a stop text is empty", one(stop=[""])
    yield "stop-zero", "a zero byte in a stop text", 2, "a stop text with a zero byte", one(stop="a\0b")
    yield "stop-long", "a stop text of 257 bytes", 2, "longer than 256 bytes", one(stop="x" * 257)
    yield "stop-17", "17 stop texts", 2, "more than 16 stop texts", one(stop=[str(k) for k in range(17)])
    yield "stop-ids-65", "65 stop ids", 2, "more than 64 stop ids", one(stop_ids=[3] * 65)
    yield "stop-ids-outside", "a stop id beyond the vocabulary", 2, ":1:", one(stop_ids=[9])
    yield "bias-list", "a bias that is a list", 2, '"logit_bias" wants an object', one(logit_bias=[1])
    yield "bias-key", "a bias for a word", 2, "token ids as keys", one(logit_bias={"a": 1})
    yield "bias-huge", "a bias of 1e7", 2, "numbers from -1e6 to 1e6", one(logit_bias={"3": 1e7})
    yield "bias-outside", "a bias beyond the vocabulary", 2, ":1:", one(logit_bias={"8": 1})
    yield "logprobs-21", "21 alternatives", 2, '"logprobs" wants a whole number from 0 to 20', one(logprobs=21)
    yield "flag-number", "1 for true", 2, '"ignore_eos" wants true or false', one(ignore_eos=1)
    yield "deadline-0", "a deadline of 0", 2, '"deadline_ms" wants a number above 0', one(deadline_ms=0)
    yield "too-long", "a prompt longer than the context", 4, "context", one(ids=[4] * 80)
    yield "too-many", "more samples than can ever run", 4, "", one(n=4096)
    yield "ok-base", "nothing", 0, "", lines(good, {"prompt": "ab a", "max_tokens": 2})
    yield "ok-blanks", "nothing: a byte order mark, CR LF, empty lines, no end of line", 0, "", \
        b"\xef\xbb\xbf\r\n" + lines(good).replace(b"\n", b"\r\n") + b"\n  " + compact(good)
    yield "ok-nulls", "nothing: null is no value", 0, "", one(id=None, stop=None, seed=None, logit_bias=None)
    yield "ok-ids", "nothing: any value names a request, one of them two", 0, "", \
        lines({**good, "id": {"a": [1]}}, {**good, "id": 1}, {**good, "id": 1})
    yield "ok-escapes", "nothing: a prompt of zero bytes and controls", 0, "", \
        lines({"prompt": "\0\x1b[31m\u2028\U0001f600", "max_tokens": 2})
    yield "ok-forbid", "nothing: all tokens but one are forbidden", 0, "", \
        one(logit_bias={str(k): "-inf" for k in range(7)})
    yield "ok-extreme", "nothing: bounds of every range", 0, "", \
        one(temperature=1000, top_k=1 << 30, top_p=1e-30, min_p=1, repeat_penalty=1000, presence_penalty=-1000,
            frequency_penalty=1000, seed=2**63 - 1, logprobs=20)
