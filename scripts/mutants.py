"""Mutants of C sources: small wrong versions, made by a tokenizer that knows just enough of C.

    for mutant in mutants_of("a.c", text): mutant.apply(text)

Needs formatted sources (`./dev format`): a blank on both sides tells a binary operator from a unary
one. What is mutated, in function bodies, enumerations and tables:

    comparisons     < <= > >= == !=: the border, and the opposite
    conditions      of if, while and for: negated; `!` dropped; && for ||
    arithmetic      + - * / % & | << >> ++ -- += -= |= and min for max
    constants       one more, one less; true for false; 0 for NONE; another state, class or status
    statements      dropped; so is one part of a, b; and one .field = of an initializer
    arguments       two neighbours swapped, when both are one word

Not touched, because such a mutant is equal by construction or of no consequence: comments, strings,
preprocessor lines, declarations without a value, sizes in declarators, the last return of a
function, PKV_ASSERT, PKV_SELF_CHECK and PKV_PREFETCH with the `if` in front of it and the constants
for it, and the values in the text of a log line.
"""
import hashlib
import re
from typing import NamedTuple

TOKEN = re.compile(r"""
    (?P<skip>\s+|/\*.*?\*/|//[^\n]*|(?:(?<=\n)|\A)[ \t]*\#(?:[^\n\\]|\\.)*)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
  | (?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d+\.\d*(?:[eE][-+]?\d+)?[fF]?|\d+[uUlL]*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<mark><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\w\s])
""", re.VERBOSE | re.DOTALL)

BINARY = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",),
          "!=": ("==",), "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("/",),
          "/": ("*",), "%": ("/",), "&": ("|",), "|": ("&",), "<<": (">>",), ">>": ("<<",),
          "^": ("|",), "+=": ("-=",), "-=": ("+=",), "|=": ("&=",), "&=": ("|=",), "*=": ("/=",)}
STEP = {"++": "--", "--": "++"}
WORDS = {"true": "false", "false": "true", "NONE": "0", "BLOCK_FREE": "BLOCK_ACTIVE",
         "BLOCK_ACTIVE": "BLOCK_CACHED", "BLOCK_CACHED": "BLOCK_ACTIVE",
         "CLASS_PROBATION": "CLASS_PROTECTED", "CLASS_PROTECTED": "CLASS_PROBATION",
         "pkv__min_i32": "pkv__max_i32", "pkv__max_i32": "pkv__min_i32"}
COMMUTATIVE = {"pkv__min_i32", "pkv__max_i32"}
QUIET = {"PKV_ASSERT", "PKV_SELF_CHECK", "PKV_PREFETCH"}  # no effect on what a caller can see
LOGGING = {"pkv__refuse", "pkv__log", "HOLDS", "REQUIRE"}
TYPE_WORDS = {"const", "static", "struct", "enum", "union", "unsigned", "signed", "int", "char",
              "long", "short", "void", "bool", "float", "double", "size_t", "uintptr_t", "volatile"}
CONTROL = {"if", "while", "for", "switch", "return", "sizeof", "else", "do", "_Alignas", "_Alignof"}
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class Mutant(NamedTuple):
    file: str
    function: str  # or "(file)"
    line: int
    source: str    # that line, blanks squeezed
    change: str    # what was done, unique within file, function and source line
    start: int
    end: int
    text: str      # stands for source[start:end]

    @property
    def key(self):
        return self.file, self.function, self.source, self.change

    def apply(self, source):
        return source[:self.start] + self.text + source[self.end:]

    def rank(self, seed):
        """Place in the sample: depends on the mutant alone, so that a change elsewhere moves none."""
        return hashlib.sha256(repr((seed, self.key)).encode()).digest()


def squeeze(text):
    return " ".join(text.split())


def tokenize(source):
    at, tokens = 0, []
    while at < len(source):
        match = TOKEN.match(source, at)
        if match.lastgroup != "skip":
            tokens.append(Token(match.lastgroup, match[0], at, match.end()))
        at = match.end()
    return tokens


class Finder:
    """All mutants of one file, in the order of the text."""

    def __init__(self, name, source):
        self.name, self.source, self.tokens = name, source, tokenize(source)
        self.found = []
        self.function = "(file)"
        self.quiet = set()  # indices of tokens that are not touched
        self.partner = self.pairs()

    def pairs(self):
        partner, stack = {}, []
        for i, token in enumerate(self.tokens):
            if token.text in OPEN:
                stack.append(i)
            elif token.text in CLOSE:
                partner[stack[-1]], partner[i] = i, stack[-1]
                stack.pop()
        return partner

    def text(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def replace(self, first, last, text, change):
        start, end = self.tokens[first].start, self.tokens[last].end
        begin = self.source.rfind("\n", 0, start) + 1
        line = self.source[begin:(self.source + "\n").index("\n", start)]
        self.found.append(Mutant(self.name, self.function, self.source.count("\n", 0, start) + 1,
                                 squeeze(line), change, start, end, text))

    # ---- the file

    def run(self):
        i = 0
        while i < len(self.tokens):
            if self.text(i) != "{":
                i += 1
                continue
            close = self.partner[i]
            if self.text(i - 1) == ")":
                self.function = self.text(self.partner[i - 1] - 1)
                self.body(i, close)
                self.function = "(file)"
            elif self.text(i - 1) == "=" or self.text(i - 1) == "enum" or self.text(i - 2) == "enum":
                self.enumerators(i, close)
            i = close + 1
        seen, unique = {}, []
        for mutant in sorted(self.found, key=lambda m: (m.start, m.end, m.text)):
            seen[mutant.key] = nth = seen.get(mutant.key, 0) + 1
            unique.append(mutant._replace(change=f"{mutant.change} #{nth}") if nth > 1 else mutant)
        return unique

    def enumerators(self, first, last):
        """Values of constants and tables, but not those that only prefetches use."""
        for i in range(first, last):
            if "PREFETCH" in self.text(i) and self.text(i + 1) == "=":
                self.quiet.update(range(i, self.end_of_expression(i, last)))
        for i in range(first + 1, last):
            if self.text(i - 1) != "[" and i not in self.quiet:
                self.token(i)

    def body(self, first, last):
        self.last_return = None
        i = first + 1
        while i < last:
            self.last_return = i if self.text(i) == "return" else None
            i = self.statement(i)
        for i in range(first + 1, last):
            if i not in self.quiet:
                self.token(i)
                self.arguments(i)

    # ---- statements

    def statement(self, i):
        """Mutants of the statement that begins at token i; the index behind it."""
        word = self.text(i)
        if word == "{":
            j = i + 1
            while j < self.partner[i]:
                j = self.statement(j)
            return self.partner[i] + 1
        if word in ("if", "while", "switch"):
            return self.conditional(i)
        if word == "for":
            close = self.partner[i + 1]
            first = self.semicolon(i + 2)
            second = self.semicolon(first + 1)
            if second > first + 1:
                self.negate(first + 1, second - 1)
            if second + 1 < close:
                self.parts(second + 1, close - 1)
            return self.statement(close + 1)
        if word == "do":
            j = self.statement(i + 1) + 1  # at the parenthesis behind `while`
            self.negate(j + 1, self.partner[j] - 1)
            return self.partner[j] + 2
        if word in ("case", "default") or (self.text(i + 1) == ":" and self.tokens[i].kind == "word"):
            while self.text(i) != ":":
                i += 1
            return i + 1
        return self.simple(i)

    def conditional(self, i):
        close = self.partner[i + 1]
        before = len(self.found)
        if self.text(i) != "switch":
            self.negate(i + 2, close - 1)
        end = self.statement(close + 1)
        if self.text(end) == "else":
            return self.statement(end + 1)
        if self.only_prefetches(close + 1, end):
            self.quiet.update(range(i, end))
            del self.found[before:]
        return end

    def only_prefetches(self, first, end):
        if self.text(first) == "{":
            first, end = first + 1, end - 1
        while first < end and self.text(first) == "PKV_PREFETCH":
            first = self.semicolon(first) + 1
        return first >= end

    def semicolon(self, i):
        while self.text(i) != ";":
            i = self.partner[i] + 1 if self.text(i) in OPEN else i + 1
        return i

    def simple(self, i):
        end = self.semicolon(i)
        word = self.text(i)
        if word in QUIET:
            self.quiet.update(range(i, end))
        elif word == "return":
            if i != self.last_return:
                self.drop(i, end)
        elif self.is_declaration(i, end):
            for j in range(i, end):  # sizes of arrays; what stands behind = is a value
                if self.text(j) == "=":
                    break
                if self.text(j) == "[":
                    self.quiet.update(range(j, self.partner[j] + 1))
        elif end > i:
            self.drop(i, end)
            self.parts(i, end - 1)
        return end + 1

    def is_declaration(self, i, end):
        first, second = self.tokens[i], self.tokens[i + 1]
        if first.text in TYPE_WORDS:
            return True
        if first.kind != "word" or first.text in CONTROL | {"break", "continue", "goto"}:
            return False
        return second.kind == "word" or (second.text == "*" and self.source[second.end] != " ")

    def drop(self, first, semicolon):
        whole = squeeze(self.source[self.tokens[first].start:self.tokens[semicolon].end])
        self.replace(first, semicolon, ";", f"drop: {whole if len(whole) < 60 else whole[:57] + '...'}")

    def parts(self, first, last):
        """Each part of `a, b`, dropped."""
        commas = self.top_commas(first, last)
        if not commas:
            return
        bounds = [first - 1] + commas + [last + 1]
        for left, right in zip(bounds, bounds[1:]):
            self.replace(left + 1, right - 1, "(void)0",
                         "drop: " + squeeze(self.source[self.tokens[left + 1].start:self.tokens[right - 1].end]))

    def top_commas(self, first, last):
        commas, i = [], first
        while i <= last:
            if self.text(i) == ",":
                commas.append(i)
            i = self.partner[i] + 1 if self.text(i) in OPEN else i + 1
        return commas

    def negate(self, first, last):
        words = {self.text(i) for i in range(first, last + 1)}
        if not words & {"&&", "||"} and words & {"!", "<", "<=", ">", ">=", "==", "!="}:
            return  # the opposite comes from that token
        old = self.source[self.tokens[first].start:self.tokens[last].end]
        self.replace(first, last, f"!({old})", f"negate: {squeeze(old)}")

    # ---- single tokens

    def token(self, i):
        token = self.tokens[i]
        blanks = self.source[token.start - 1] in " \n" and self.source[token.end] in " \n"
        if token.kind == "mark":
            if token.text in BINARY and blanks:
                for new in BINARY[token.text]:
                    self.replace(i, i, new, f"{token.text} -> {new}")
            elif token.text in STEP:
                self.replace(i, i, STEP[token.text], f"{token.text} -> {STEP[token.text]}")
            elif token.text in "!~":
                self.replace(i, i, "", f"drop {token.text}")
            elif token.text == "." and self.text(i - 1) in "{," and self.text(i + 2) == "=":
                self.field(i)
        elif token.kind == "number":
            for new in neighbours(token.text):
                self.replace(i, i, new, f"{token.text} -> {new}")
        elif token.text in WORDS:
            self.replace(i, i, WORDS[token.text], f"{token.text} -> {WORDS[token.text]}")
        elif re.match(r"PKV_(E_|OK$)", token.text) and self.text(i - 1) not in ("==", "!="):
            new = "PKV_E_NO_MEMORY" if token.text != "PKV_E_NO_MEMORY" else "PKV_E_INVALID_ARG"
            self.replace(i, i, new, f"{token.text} -> {new}")

    def end_of_expression(self, i, limit):
        while i < limit and self.text(i) not in (",", ";"):
            i = self.partner[i] + 1 if self.text(i) in OPEN else i + 1
        return min(i, limit)

    def field(self, i):
        """One designated field less: it becomes zero."""
        j = i
        while self.text(j) not in (",", "}"):
            j = self.partner[j] + 1 if self.text(j) in OPEN else j + 1
        last = j if self.text(j) == "," else j - 1
        if last == j or self.text(i - 1) == ",":
            self.replace(i, last, "", f"drop: {squeeze(self.source[self.tokens[i].start:self.tokens[j - 1].end])}")

    def arguments(self, i):
        """A call: swap neighbours that are one word each; leave the values of a log line alone."""
        name = self.text(i)
        if self.text(i + 1) != "(" or self.tokens[i].kind != "word" or name in CONTROL:
            return
        close = self.partner[i + 1]
        commas = self.top_commas(i + 2, close - 1)
        if name in LOGGING:
            self.silence(i, commas, close)
        if name in COMMUTATIVE | LOGGING:
            return
        bounds = [i + 1] + commas + [close]
        for a, b, c in zip(bounds, bounds[1:], bounds[2:]):
            one, two = self.text(a + 1), self.text(b + 1)
            if b - a == 2 and c - b == 2 and one != two and not {a + 1, b + 1} & self.quiet:
                self.replace(a + 1, b + 1, f"{two}, {one}", f"swap: {one}, {two}")

    def silence(self, i, commas, close):
        for comma in commas:
            if self.tokens[comma + 1].kind == "text":
                self.quiet.update(range(comma + 1, close))
                start, end = self.tokens[comma].end, self.tokens[close].start
                self.found = [m for m in self.found if not start <= m.start < end]
                return


def neighbours(number):
    match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", number)
    if not match:
        return []
    value, suffix = int(match[1], 0) if match[1] != "0" else 0, match[2]
    show = (lambda n: f"{n:#x}{suffix}") if number[:2] in ("0x", "0X") else (lambda n: f"{n}{suffix}")
    return [show(value + 1)] + ([show(value - 1)] if value else [])


def mutants_of(name, source):
    return Finder(name, source).run()
