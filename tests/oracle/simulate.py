"""A slow model of the simulator: one step after the other, one request after the other, exact
integers. It is written from docs/simulator.md, not from the C code, so that the two can be compared.

simulate(policy text, cfg, requests, content) -> dict of results. A request is (arrival ns, prompt
tokens, output tokens); cfg is a dict with the names of the program's JSON configuration.
"""
from fractions import Fraction

from simulate_policies import ceil_div, make_policy

DEFAULTS = dict(kv_tokens=15728, max_model_len=2048, max_num_seqs=256, watermark_ppm=10000, base_ns=22000000,
                per_batch_ns=300000, per_token_ns=400, skip=False, concurrency=0, max_batched_tokens=0,
                prefill_chunk=0, prefill_tokens_per_s=0, kv_bytes_per_token=819200, tensor_token_bytes=10240,
                swap_tokens=0, swap_bytes_per_s=32 * 10**9, copy_latency_ns=10000, window="auto", nearest=False)
KINDS = ("unusable", "short", "limited", "idle")


class Request:
    def __init__(self, index, arrival, prompt, output):
        self.index, self.arrival, self.prompt, self.output = index, arrival, prompt, output
        self.generated = 0
        self.to_compute = 0  # tokens that prefill has still to go through
        self.first_token = self.finish = None
        self.ran_ns = 0
        self.admitted = self.preempted = False
        self.refused = -1  # what `returns` was when the policy had no room for it

    @property
    def u(self):
        return self.prompt + self.generated


class Simulation:
    def __init__(self, policy, cfg, requests, content=None):
        self.cfg = {**DEFAULTS, **cfg}
        self.policy = make_policy(policy, self.cfg, requests, content)
        self.all = [Request(k, *r) for k, r in enumerate(requests)]
        self.now = self.steps = 0
        self.returns = 0  # times that somebody gave room back
        self.coming = list(self.all)
        self.waiting, self.swapped, self.running, self.done, self.too_long = [], [], [], [], []
        self.count = dict.fromkeys(("admissions", "preemptions", "recomputed", "swaps", "max_queue", "max_batch",
                                    "events", "move_ns", "prefill_ns", "resumes", "generated"), 0)
        self.hits = dict.fromkeys(("prompt_tokens", "cached_tokens", "prompt_blocks", "cached_blocks",
                                   "again_tokens", "again_cached"), 0)
        self.rates = []
        self.begin = None      # first admission
        self.last_arrival = None
        self.stretches = []    # (from, to, parts, batch, queued, waited, scatter)
        if self.cfg["concurrency"]:
            for r in self.all:
                r.arrival = 0 if r.index < self.cfg["concurrency"] else None

    # ---------------------------------------------------------------- arrivals

    def next_client(self):
        """Closed loop: somebody is done, so the next request arrives now."""
        if self.cfg["concurrency"]:
            for r in self.coming:
                if r.arrival is None:
                    r.arrival = self.now
                    return

    def take_in(self):
        while self.coming and self.coming[0].arrival is not None and self.coming[0].arrival <= self.now:
            r = self.coming.pop(0)
            self.last_arrival = r.arrival
            if r.prompt + r.output > self.cfg["max_model_len"] or not self.policy.fits_empty(r.index):
                self.too_long.append(r)
                self.next_client()
            else:
                self.waiting.append(r)

    # ---------------------------------------------------------------- admission

    def chunk(self, r):
        """Tokens that r computes in this step."""
        if r.to_compute == 0:
            return 1  # it decodes
        k = self.cfg["prefill_chunk"]
        return min(k, r.to_compute) if k else r.to_compute

    def resume_swapped(self):
        while self.swapped and len(self.running) < self.cfg["max_num_seqs"]:
            r = self.swapped[0]
            if not self.policy.resume(r.index, r.u, not self.running):
                return
            self.swapped.pop(0)
            self.running.append(r)
            self.count["resumes"] += 1

    def passes_token_limit(self, r):
        limit = self.cfg["max_batched_tokens"]
        if not limit or not self.running:
            return True
        compute = max(1, r.u - self.policy.probe(r.index, r.u))
        k = self.cfg["prefill_chunk"]
        mine = min(k, compute) if k else compute
        return sum(self.chunk(x) for x in self.running) + mine <= limit

    def try_admit(self, r):
        if self.policy.closed():
            return False
        if r.refused == self.returns:
            return False  # it is the room that keeps it out, and there is not more of it
        if not self.passes_token_limit(r):
            self.over_limit.append(r)
            return False
        cached = self.policy.admit(r.index, r.u, not self.running)
        if cached is None:
            r.refused = self.returns
            return False
        self.count_hits(r, cached)
        r.to_compute = max(1, r.u - cached)
        r.admitted = True
        self.count["admissions"] += 1
        if self.begin is None:
            self.begin = self.now
        self.running.append(r)
        return True

    def count_hits(self, r, cached):
        block = getattr(self.policy, "block", 0)
        if not getattr(self.policy, "prefix", False):
            self.count["recomputed"] += r.u if r.admitted else 0
            return
        if r.admitted:
            self.hits["again_tokens"] += r.u
            self.hits["again_cached"] += cached
            self.count["recomputed"] += r.u - cached
            return
        self.hits["prompt_tokens"] += r.prompt
        self.hits["cached_tokens"] += cached
        self.hits["prompt_blocks"] += r.prompt // block
        self.hits["cached_blocks"] += cached // block
        self.rates.append(Fraction(cached, r.prompt))

    def admit(self):
        if self.swapped:
            return
        for r in list(self.waiting):
            if len(self.running) >= self.cfg["max_num_seqs"]:
                return
            if self.try_admit(r):
                self.waiting.remove(r)
            elif not self.cfg["skip"]:
                return

    # ---------------------------------------------------------------- one step

    def generates(self, r):
        """Does r gain a token in this step?"""
        return r.output > 0 and r.to_compute <= self.chunk(r)

    def preempt(self):
        """The latest arrival gives way."""
        victim = max(self.running, key=lambda r: r.index)
        self.running.remove(victim)
        self.count["preemptions"] += 1
        victim.preempted = True
        self.returns += 1
        if self.policy.has_swap and self.policy.suspend(victim.index, victim.u):
            self.swapped.insert(0, victim)
            self.count["swaps"] += 1
        else:
            self.policy.release(victim.index, victim.u)
            victim.to_compute = 0
            self.waiting.insert(0, victim)
        return victim

    def make_room(self):
        for r in list(self.running):
            while r in self.running and self.generates(r) and not self.policy.grow(r.index, r.u):
                if self.preempt() is r:
                    break

    def kind_of_free(self):
        queue = self.swapped + self.waiting
        if not queue:
            return "idle"
        room_to_run = len(self.running) < self.cfg["max_num_seqs"]
        closed = self.policy.closed()
        limited = not room_to_run or closed or queue[0] in self.over_limit
        if not self.policy.has_places and not limited:
            return "short"
        free = self.policy.parts([(r.index, r.u) for r in self.running])["free"]
        if self.policy.need(queue[0].index, queue[0].u, not self.running) > free:
            return "short"
        return "limited" if limited else "unusable"

    def account(self, end, queued):
        parts = self.policy.parts([(r.index, r.u) for r in self.running])
        for kind in KINDS:
            parts[kind] = 0
        parts[self.kind_of_free()] = parts["free"]
        waited = bool(self.waiting or self.swapped)
        self.stretches.append((self.now, end, parts, len(self.running), queued, waited, self.policy.scatter()))

    def step(self):
        self.over_limit = []  # whom max_batched_tokens keeps out of this step
        self.count["max_queue"] = max(self.count["max_queue"], len(self.waiting) + len(self.swapped))
        self.resume_swapped()
        self.admit()
        queued = bool(self.waiting or self.swapped)
        self.make_room()
        self.policy.step_done()
        cfg = self.cfg
        prefill = 0
        if cfg["prefill_tokens_per_s"]:
            computed = sum(self.chunk(r) for r in self.running if r.to_compute)
            prefill = ceil_div(computed * 10**9, cfg["prefill_tokens_per_s"])
        moves = self.policy.take_cost_ns()
        length = (cfg["base_ns"] + cfg["per_batch_ns"] * len(self.running) +
                  cfg["per_token_ns"] * sum(r.u for r in self.running) + prefill + moves)
        self.count["max_batch"] = max(self.count["max_batch"], len(self.running))
        self.count["prefill_ns"] += prefill
        self.count["move_ns"] += moves
        end = self.now + length
        self.account(end, queued)
        self.now = end
        self.steps += 1
        for r in list(self.running):
            r.ran_ns += length
            self.advance(r)

    def advance(self, r):
        last_chunk = r.to_compute <= self.chunk(r)
        r.to_compute -= min(r.to_compute, self.chunk(r))
        if not last_chunk:
            return
        if r.output > 0:
            r.generated += 1
            self.count["generated"] += 1
        if r.first_token is None:
            r.first_token = self.now
        if r.generated == r.output:
            r.finish = self.now
            self.running.remove(r)
            self.policy.release(r.index, r.u)
            self.done.append(r)
            self.returns += 1
            self.next_client()

    def run(self):
        while True:
            self.take_in()
            if not (self.waiting or self.swapped or self.running):
                later = [r.arrival for r in self.coming if r.arrival is not None]
                if not later:
                    break
                if self.begin is not None:
                    self.account(min(later), False)
                self.now = min(later)
                continue
            self.step()
        assert not self.coming and len(self.done) + len(self.too_long) == len(self.all)
        return self


# ---------------------------------------------------------------- results

def dist(values, nearest):
    """n, mean, p50, p90, p99, max of numbers, exactly: numpy's default, or the nearest rank."""
    v = sorted(values)
    n = len(v)
    if n == 0:
        return dict(n=0)
    out = dict(n=n, mean=Fraction(sum(v), 1) / n, max=v[-1])
    for p in (50, 90, 99):
        if nearest:
            out[f"p{p}"] = v[max(0, ceil_div(p * n, 100) - 1)]
            continue
        at = Fraction(p * (n - 1), 100)
        low = at.numerator // at.denominator
        out[f"p{p}"] = v[low] + (v[min(low + 1, n - 1)] - v[low]) * (at - low)
    return out


def choose_window(sim):
    if sim.cfg["window"] != "auto":
        return sim.cfg["window"]
    if sim.cfg["concurrency"]:
        return "arrivals" if len(sim.all) > sim.cfg["concurrency"] else "all"
    return "arrivals" if sim.all[0].arrival != sim.all[-1].arrival else "queued"


def averages(sim, window):
    """Integrals over the window, divided once."""
    pool = sim.cfg["kv_tokens"] * sim.policy.unit
    last = max((r.finish for r in sim.done), default=0)
    end = dict(all=last, arrivals=sim.last_arrival, queued=None)[window]
    sums, window_ns, waited_ns, waste, batch = {}, 0, 0, 0, 0
    scatter, scattered_ns = 0, 0
    for begin, stop, parts, running, queued, waited, places in sim.stretches:
        length = (stop if end is None else min(stop, end)) - begin
        if length <= 0 or (window == "queued" and not queued):
            continue
        split = sum(parts[k] for k in ("token", "reservation", "internal", "rounding") + KINDS)
        assert split == pool and min(parts.values()) >= 0, (parts, pool)
        window_ns += length
        batch += running * length
        for name, units in parts.items():
            sums[name] = sums.get(name, 0) + units * length
        if waited:
            waited_ns += length
            waste += (pool - parts["token"]) * length
        if places and places[1] > 0:
            scatter += 10**6 * places[0] // places[1] * length
            scattered_ns += length
    area = pool * window_ns
    share = {name: Fraction(s, area) if area else 0 for name, s in sums.items() if name not in ("entries", "used")}
    saving = Fraction(sums["entries"] - sums["used"], sums["entries"]) if sums.get("entries") else 0
    return dict(window_ns=window_ns, waited_ns=waited_ns, share=share, saving=saving,
                mean_batch=Fraction(batch, window_ns) if window_ns else None,
                waste_waited=Fraction(waste, area) if area else None,
                scatter=Fraction(scatter, scattered_ns * 10**6) if scattered_ns else 0)


def simulate(policy, cfg, requests, content=None):
    sim = Simulation(policy, cfg, requests, content).run()
    window, nearest = choose_window(sim), sim.cfg["nearest"]
    out = dict(sim.count)
    out.update(averages(sim, window))
    out.update(window=window, steps=sim.steps, finished=len(sim.done), too_long=len(sim.too_long),
               first_too_long=min((r.index for r in sim.too_long), default=None),
               end_ns=max((r.finish for r in sim.done), default=0),
               preempted_requests=sum(r.preempted for r in sim.all), hits=sim.hits,
               mean_rate=Fraction(sum(sim.rates), 1) / len(sim.rates) if sim.rates else None,
               failed_takes=getattr(sim.policy, "n_failed", 0),
               swapped_blocks=getattr(sim.policy, "moved_blocks", 0))
    # Events: admissions, growth that took room, releases, suspends, resumes.
    out["events"] = (out["admissions"] + sim.policy.events + len(sim.done) + out["preemptions"] + out["resumes"])
    second = Fraction(1, 10**9)
    done = sim.done
    out["e2e_s"] = dist([(r.finish - r.arrival) * second for r in done], nearest)
    out["ttft_s"] = dist([(r.first_token - r.arrival) * second for r in done], nearest)
    out["residence_s"] = dist([r.ran_ns * second for r in done], nearest)
    out["normalized_s_per_token"] = dist(
        [(r.finish - r.arrival) * second / r.output for r in done if r.output], nearest)
    out["tpot_s"] = dist(
        [(r.finish - r.first_token) * second / (r.output - 1) for r in done if r.output >= 2], nearest)
    return out
