"""Allocation policies, written from docs/simulator.md and not from the C code. Used by simulate.py.

A policy sees requests, never the clock: admit(r, u, empty) -> cached tokens or None, grow(r, u) ->
bool, release(r, u), parts(running) -> dict of units. `running` is a list of (request index, u).
"""
from simulate_pools import Blocks, make_pool, power_of_two


def ceil_div(a, b):
    return -(-a // b)


class Policy:
    unit = 1           # units per slot
    has_places = False
    has_swap = False

    def __init__(self, cfg, requests):
        self.cfg, self.requests = cfg, requests
        self.events = 0  # times that it took room while growing
        self.held = {}

    def closed(self):
        return False

    def probe(self, r, u):
        """Tokens that admit would find."""
        return 0

    def scatter(self):
        return None  # places do not matter

    def take_cost_ns(self):
        return 0

    def step_done(self):
        pass


class Contiguous(Policy):
    """max, pow2, oracle with an allocator; orca-real, a counter of max_tokens each."""

    def __init__(self, cfg, requests, kind, alloc="buddy", max_tokens=0):
        super().__init__(cfg, requests)
        self.kind, self.max_tokens = kind, max_tokens or cfg["max_model_len"]
        self.pool = make_pool("ideal" if kind == "orca-real" else alloc, cfg["kv_tokens"])
        self.has_places = self.pool.has_places
        self.failed = set()
        self.n_failed = 0

    def asked(self, r):
        i, o = self.requests[r][1:]
        if self.kind == "orca-real":
            return self.max_tokens
        if self.kind == "max":
            return self.cfg["max_model_len"]
        if self.kind == "pow2":
            return min(self.cfg["max_model_len"], i + power_of_two(o) if o else i)
        return i + o

    def fits_empty(self, r):
        i, o = self.requests[r][1:]
        return i + o <= self.asked(r) and self.pool.fits_empty(self.asked(r))

    def admit(self, r, u, empty):
        chunk = self.pool.take(self.asked(r))
        if chunk is None:
            if self.pool.free() >= self.asked(r) and r not in self.failed:
                self.failed.add(r)  # once per request until room is given back
                self.n_failed += 1
            return None
        self.held[r] = chunk
        return 0

    def grow(self, r, u):
        return True

    def release(self, r, u):
        self.pool.give(*self.held.pop(r))
        self.failed.clear()

    def need(self, r, u, empty):
        return self.asked(r)

    def parts(self, running):
        p = dict(token=0, reservation=0, internal=0, rounding=0, logical=0)
        for r, u in running:
            h, (_, q) = self.asked(r), self.held[r]
            f = sum(self.requests[r][1:])
            p["token"] += u
            p["reservation"] += max(0, min(h, f) - u)
            p["internal"] += max(0, h - f)
            p["rounding"] += q - h
        p["logical"] = p["token"]
        p["free"] = self.pool.free()
        return p

    def scatter(self):
        return self.pool.free() - self.pool.largest(), self.pool.free()


class StaticBatch(Policy):
    """As max, but nobody joins until the longest request of the batch is done; the chunks of the
    finished ones are internal waste until then."""
    def __init__(self, cfg, requests, alloc="buddy"):
        super().__init__(cfg, requests)
        self.m = cfg["max_model_len"]
        self.pool = make_pool(alloc, cfg["kv_tokens"])
        self.batch, self.alive, self.sealed = {}, set(), False
        self.failed, self.n_failed = set(), 0

    def fits_empty(self, r):
        return self.pool.fits_empty(self.m)

    def closed(self):
        return self.sealed

    def admit(self, r, u, empty):
        chunk = self.pool.take(self.m)
        if chunk is None:
            if self.pool.free() >= self.m and r not in self.failed:
                self.failed.add(r)
                self.n_failed += 1
            return None
        self.batch[r] = chunk
        self.alive.add(r)
        self.held[r] = chunk
        return 0

    def grow(self, r, u):
        return True

    def step_done(self):  # the step that a batch runs seals it
        self.sealed = bool(self.alive)

    def release(self, r, u):
        self.alive.remove(r)
        del self.held[r]
        if not self.alive:
            for chunk in self.batch.values():
                self.pool.give(*chunk)
            self.batch, self.sealed = {}, False
            self.failed.clear()

    def need(self, r, u, empty):
        return self.m

    def parts(self, running):
        p = dict(token=0, reservation=0, internal=0, rounding=0, dead=0)
        for r, u in running:
            f = sum(self.requests[r][1:])
            p["token"] += u
            p["reservation"] += f - u
            p["internal"] += self.m - f
            p["rounding"] += self.batch[r][1] - self.m
        for r in self.batch.keys() - self.alive:
            p["dead"] += self.batch[r][1]
        p["internal"] += p["dead"]
        p["logical"] = p["token"]
        p["free"] = self.pool.free()
        return p

    def scatter(self):
        return self.pool.free() - self.pool.largest(), self.pool.free()


class Paged(Policy):
    """Fixed blocks: ceil(u/B) at admission, ceil((u+1)/B) before each step; with `prefix` full
    blocks are shared and found again; with `swap` victims move to another pool."""

    def __init__(self, cfg, requests, block=16, prefix=False, swap=False, content=None):
        super().__init__(cfg, requests)
        self.block, self.prefix, self.has_swap = block, prefix, swap
        self.n_blocks = cfg["kv_tokens"] // block
        self.watermark = self.n_blocks * cfg["watermark_ppm"] // 1000000
        self.blocks = Blocks(self.n_blocks)
        self.content = content
        self.rows = {}
        self.host_free = cfg.get("swap_tokens", 0) // block
        self.host = {}
        self.moved_blocks = self.moved_now = 0

    def tokens(self, r, n):
        """Names of the first n tokens of r: what a content id covers is named by it and its place."""
        ids, per = self.content[r] if self.content else ((), 1)
        i = self.requests[r][1]
        covered = min(i, len(ids) * per)
        return [("id", ids[k // per]) if k < covered else ("own", r, k < i) for k in range(n)]

    def contents(self, r, u):
        """Content of each full block of r's first u tokens."""
        names = self.tokens(r, u)
        return [tuple(names[:k]) for k in range(self.block, u + 1, self.block)]

    def found(self, r, u):
        """An engine computes one token at least, so at most u - 1 are found."""
        return self.blocks.find(self.contents(r, u - 1)) if self.prefix else []

    def probe(self, r, u):
        return len(self.found(r, u)) * self.block

    def fits_empty(self, r):
        return ceil_div(sum(self.requests[r][1:]), self.block) <= self.n_blocks

    def blocks_needed(self, r, u):
        """Blocks that leave what is free, evictable ones included."""
        claim = self.found(r, u)
        fresh = ceil_div(u, self.block) - len(claim)
        return claim, fresh, fresh + sum(b[0] == 0 for b in claim)

    def admit(self, r, u, empty):
        claim, fresh, leaving = self.blocks_needed(r, u)
        kept = 0 if empty else self.watermark
        if self.blocks.available() - leaving < kept:
            return None
        for block in claim:
            self.blocks.claim(block)
        self.rows[r] = claim + [self.blocks.take() for _ in range(fresh)]
        self.held[r] = len(self.rows[r])
        self.publish(r, u)
        return len(claim) * self.block

    def publish(self, r, u):
        if self.prefix:
            for block, content in zip(self.rows[r], self.contents(r, u)):
                self.blocks.publish(block, content)

    def grow(self, r, u):
        missing = ceil_div(u + 1, self.block) - len(self.rows[r])
        self.publish(r, u)
        if missing > self.blocks.available():
            return False
        self.rows[r] += [self.blocks.take() for _ in range(missing)]
        self.held[r] = len(self.rows[r])
        self.events += missing > 0
        return True

    def release(self, r, u):
        # The last token drawn is never stored, so nothing new is full here.
        for block in reversed(self.rows.pop(r)):
            self.blocks.drop(block)
        del self.held[r]

    def move(self, n):
        self.moved_blocks += n
        self.moved_now += n

    def take_cost_ns(self):
        """What moved since it was asked last, rounded up to whole ns once."""
        n, self.moved_now = self.moved_now, 0
        speed = self.cfg["swap_bytes_per_s"]
        n_bytes = n * self.block * self.cfg["kv_bytes_per_token"]
        return n * self.cfg["copy_latency_ns"] + (ceil_div(n_bytes * 10**9, speed) if speed else 0)

    def suspend(self, r, u):
        n = ceil_div(u, self.block)
        if n > self.host_free:
            return False
        self.release(r, u)
        self.host_free -= n
        self.host[r] = n
        self.move(n)
        return True

    def resume(self, r, u, empty):
        n = ceil_div(u, self.block)
        kept = 0 if empty else self.watermark
        if self.blocks.available() - n < kept:
            return False
        self.rows[r] = [self.blocks.take() for _ in range(n)]
        self.held[r] = n
        self.host_free += self.host.pop(r)
        self.move(n)
        return True

    def need(self, r, u, empty):
        leaving = ceil_div(u, self.block) if r in self.host else self.blocks_needed(r, u)[2]
        return (leaving + (0 if empty else self.watermark)) * self.block

    def parts(self, running):
        logical = sum(u for _, u in running)
        seen, entries = {}, 0
        for r, _ in running:
            entries += len(self.rows[r])
            for block in self.rows[r]:
                seen[id(block)] = block
        used = len(seen)
        assert used + self.blocks.available() == self.n_blocks
        token = logical - (entries - used) * self.block
        kept = min(self.watermark, self.blocks.available()) * self.block
        return dict(token=token, reservation=0, internal=used * self.block - token, rounding=0, logical=logical,
                    free=self.cfg["kv_tokens"] - used * self.block, watermark=kept,
                    tail=self.cfg["kv_tokens"] - self.n_blocks * self.block,
                    cached=len(self.blocks.cached) * self.block, entries=entries, used=used)


class Vattn(Policy):
    """Physical pages behind contiguous addresses, in each tensor alike; units are bytes of one."""

    def __init__(self, cfg, requests, page):
        super().__init__(cfg, requests)
        self.page, self.unit = page, cfg["tensor_token_bytes"]
        self.n_groups = cfg["kv_tokens"] * self.unit // page
        self.watermark = self.n_groups * cfg["watermark_ppm"] // 1000000
        self.left = self.n_groups

    def groups(self, u):
        return ceil_div(u * self.unit, self.page)

    def fits_empty(self, r):
        return self.groups(sum(self.requests[r][1:])) <= self.n_groups

    def admit(self, r, u, empty):
        n = self.groups(u)
        if self.left - n < (0 if empty else self.watermark):
            return None
        self.left -= n
        self.held[r] = n
        return 0

    def grow(self, r, u):
        missing = self.groups(u + 1) - self.held[r]
        if missing > self.left:
            return False
        self.left -= missing
        self.held[r] += missing
        self.events += missing > 0
        return True

    def release(self, r, u):
        self.left += self.held.pop(r)

    def need(self, r, u, empty):
        return (self.groups(u) + (0 if empty else self.watermark)) * self.page

    def parts(self, running):
        token = sum(u for _, u in running) * self.unit
        used = (self.n_groups - self.left) * self.page
        pool = self.cfg["kv_tokens"] * self.unit
        return dict(token=token, reservation=0, internal=used - token, rounding=0, logical=token, free=pool - used,
                    watermark=min(self.watermark, self.left) * self.page, tail=pool - self.n_groups * self.page)


def make_policy(text, cfg, requests, content=None):
    """NAME[:key=value,...] as pkv-fragsim reads it."""
    name, _, rest = text.partition(":")
    options = dict(word.split("=") for word in rest.split(",")) if rest else {}
    if name in ("max", "pow2", "oracle", "orca-real"):
        return Contiguous(cfg, requests, name, options.get("alloc", "buddy"), int(options.get("max_tokens", 0)))
    if name == "static-batch":
        return StaticBatch(cfg, requests, options.get("alloc", "buddy"))
    if name == "vattn":
        page = options.get("page", "2M")
        return Vattn(cfg, requests, int(page[:-1]) * {"K": 1024, "M": 1024 * 1024}[page[-1]])
    parts = name.split("+")
    assert parts[0] == "paged", text
    return Paged(cfg, requests, int(options.get("block", 16)), "prefix" in parts, "swap" in parts, content)
