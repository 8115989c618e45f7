#!/usr/bin/env python3
"""Hugging Face transformers on the same GPU and the same shapes: GPT-2 with random weights.

Four rungs, each greedy and each with the whole batch in lockstep:
  eager + cache           DynamicCache, one kernel launch after the other
  static + compile        StaticCache, torch.compile(mode="reduce-overhead"): a graph a step
  static + compile + item the same, and after each step .item() asks whether all have ended
  static + compile + ping-pong
                          two streams take turns; the answer of step i is read while step i+1 runs
A figure is the median over the repeats of (wall time of all steps) / steps. Needs a CUDA GPU, torch
and transformers.
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

MODE = "reduce-overhead"
WARM_RUNS = 2


class Peer:
    """The model, its prompt and the compiled step of one batch."""

    def __init__(self, torch, transformers, options, batch):
        self.torch = torch
        self.batch = batch
        self.steps = options.steps
        # The measured steps lie around the context, as decode_bench has them.
        self.prompt = options.context - options.steps // 2
        self.transformers = transformers
        self.config = transformers.GPT2Config(attn_implementation="sdpa")
        if not 1 <= self.prompt <= self.config.n_positions - options.steps - 8:
            sys.exit(f"hf_ladder.py: --context: {options.steps} steps around {options.context} do "
                     f"not fit the model's {self.config.n_positions} positions")
        torch.manual_seed(1)
        model = transformers.GPT2LMHeadModel(self.config)
        self.model = model.to("cuda", getattr(torch, options.dtype)).eval()
        self.eos = self.config.eos_token_id
        self.ids = torch.randint(0, 50000, (batch, self.prompt), device="cuda")
        self.compiled = torch.compile(self.forward, mode=MODE)
        self.cache = None

    def forward(self, token, position, cache):
        out = self.model(token, past_key_values=cache, use_cache=True, cache_position=position)
        return out.logits[:, -1].argmax(-1, keepdim=True)

    def start_static(self):
        """Prefills the static cache; the first token and its position."""
        torch = self.torch
        if self.cache is None:
            self.cache = self.transformers.StaticCache(
                config=self.config, max_cache_len=self.prompt + self.steps + 8)
        self.cache.reset()
        positions = torch.arange(self.prompt, device="cuda")
        token = self.forward(self.ids, positions, self.cache)
        return token, torch.tensor([self.prompt], device="cuda")

    def compiled_step(self, token, position):
        # The graph's output lives in the graph's memory until its next launch.
        self.torch.compiler.cudagraph_mark_step_begin()
        return self.compiled(token, position, self.cache).clone(), position + 1

    def run_eager(self):
        cache = self.transformers.DynamicCache(config=self.config)
        out = self.model(self.ids, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1].argmax(-1, keepdim=True)
        started = self.clock()
        for _ in range(self.steps):
            out = self.model(token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
        return self.clock() - started

    def run_compiled(self):
        token, position = self.start_static()
        started = self.clock()
        for _ in range(self.steps):
            token, position = self.compiled_step(token, position)
        return self.clock() - started

    def run_item(self):
        token, position = self.start_static()
        ended = self.torch.zeros(self.batch, dtype=self.torch.bool, device="cuda")
        started = self.clock()
        for _ in range(self.steps):
            token, position = self.compiled_step(token, position)
            ended |= token[:, 0] == self.eos
            ended.all().item()  # random weights: all steps run, but each one waits here
        return self.clock() - started

    def run_pingpong(self):
        torch = self.torch
        token, position = self.start_static()
        ended = torch.zeros(self.batch, dtype=torch.bool, device="cuda")
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        flags = [torch.zeros(1, dtype=torch.bool, pin_memory=True) for _ in range(2)]
        delivered = [torch.cuda.Event(), torch.cuda.Event()]
        computed = None
        started = self.clock()
        for i in range(self.steps):
            half = i % 2
            with torch.cuda.stream(streams[half]):
                if computed is not None:
                    streams[half].wait_event(computed)
                token, position = self.compiled_step(token, position)
                ended = ended | (token[:, 0] == self.eos)
                computed = torch.cuda.Event()
                computed.record(streams[half])
                flags[half].copy_(ended.all().view(1), non_blocking=True)
                delivered[half].record(streams[half])
            if i > 0:
                delivered[1 - half].synchronize()
                bool(flags[1 - half][0])
        return self.clock() - started

    def clock(self):
        self.torch.cuda.synchronize()
        return time.perf_counter()


RUNGS = [
    ("eager + cache", Peer.run_eager),
    ("static + compile", Peer.run_compiled),
    ("static + compile + item", Peer.run_item),
    ("static + compile + ping-pong", Peer.run_pingpong),
]


def measure(peer, run, repeats):
    with peer.torch.inference_mode():
        for _ in range(WARM_RUNS):
            run(peer)
        times = sorted(run(peer) / peer.steps * 1e6 for _ in range(repeats))
    return {
        "step_us": {"median": statistics.median(times), "min": times[0], "max": times[-1]},
        "tokens_per_s": peer.batch / statistics.median(times) * 1e6,
    }


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", default="1,32", help="comma-separated (default %(default)s)")
    parser.add_argument("--context", type=int, default=512,
                        help="mean context of the measured steps (default %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="measured steps of a run")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the median counts")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--json", type=pathlib.Path, help="also write the figures to this file")
    return parser.parse_args()


def main():
    options = arguments()
    try:
        import torch
        import transformers
    except ImportError as error:
        sys.exit(f"hf_ladder.py: {error}; it needs the packages torch and transformers")
    if not torch.cuda.is_available():
        sys.exit("hf_ladder.py: torch sees no CUDA GPU")
    result = {
        "benchmark": "peers", "model": "gpt2", "dtype": options.dtype, "context": options.context,
        "steps": options.steps, "repeats": options.repeats, "torch": torch.__version__,
        "transformers": transformers.__version__, "gpu": torch.cuda.get_device_name(), "cases": []}
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {result['gpu']}")
    for batch in map(int, options.batch.split(",")):
        torch.compiler.reset()  # compiled for another batch, it would go on with dynamic shapes
        peer = Peer(torch, transformers, options, batch)
        for name, run in RUNGS:
            case = {"rung": name, "batch": batch}
            try:
                case.update(measure(peer, run, options.repeats))
                print(f"{name:<30} batch {batch:>3} {case['step_us']['median']:>9.1f} us a step "
                      f"{case['tokens_per_s']:>9.0f} tokens/s", flush=True)
            except Exception as error:  # one rung's failure must not cost the others
                case["error"] = f"{type(error).__name__}: {error}"[:300]
                print(f"{name:<30} batch {batch:>3} did not run: {case['error']}", flush=True)
            result["cases"].append(case)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if any("step_us" in case for case in result["cases"]) else 1


if __name__ == "__main__":
    sys.exit(main())
