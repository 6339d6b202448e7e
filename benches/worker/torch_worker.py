"""Times PyTorch's operators on one GPU, on request, as benches/worker does Candle's: a line of JSON in, a line out.

The protocol is benches/protocol; the operators here are those that PyTorch has under the same name and meaning.
"""

import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

DEVICE = torch.device("cuda", 0)
LENGTH = 1_048_573
MOST_SETS = 64
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def signed(dims, dtype, seed=0):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    block = torch.rand(LENGTH, device=DEVICE, generator=generator) * 2 - 1
    count = math.prod(dims)
    return block.to(dtype).repeat(-(-count // LENGTH))[:count].clone().reshape(dims)


def positive(dims, dtype, seed=0):
    return signed(dims, dtype, seed).abs() * 0.95 + 0.05


def indices(dims, bound, seed=3):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randint(bound, dims, device=DEVICE, generator=generator)


UNARY = {
    "copy": torch.clone,
    "exp": torch.exp,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "abs": torch.abs,
    "neg": torch.neg,
    "sqr": torch.square,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_erf": F.gelu,
    "erf": torch.erf,
    "silu": F.silu,
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "floor": torch.floor,
    "cast_f16": lambda x: x.to(torch.float16),
    "cast_bf16": lambda x: x.to(torch.bfloat16),
    "cast_f32": lambda x: x.to(torch.float32),
    "cast_f64": lambda x: x.to(torch.float64),
    "sum_last": lambda x: x.sum(-1),
    "max_last": lambda x: x.amax(-1),
    "argmax_last": lambda x: x.argmax(-1),
    "sum_first": lambda x: x.sum(0),
    "max_first": lambda x: x.amax(0),
    "argmax_first": lambda x: x.argmax(0),
    "sum_all": lambda x: x.sum(),
    "softmax": lambda x: F.softmax(x, -1),
    "sort": lambda x: x.sort(-1)[0],
    "argsort": lambda x: x.argsort(-1),
    "sort_pairs": lambda x: x.sort(dim=-1, stable=True),
    "topk_50": lambda x: x.topk(50, -1),
    "cumsum_last": lambda x: x.cumsum(-1),
    "cumsum_first": lambda x: x.cumsum(0),
    "dropout": lambda x: F.dropout(x, 0.1),
    "transpose": lambda x: x.t().contiguous(),
    "swap_middle": lambda x: x.transpose(1, 2).contiguous(),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "upsample_nearest2d": lambda x: F.interpolate(x, scale_factor=2),
    "fill": torch.ones_like,
    "zeros": torch.zeros_like,
}
POSITIVE = {"log": torch.log, "recip": torch.reciprocal, "sqrt": torch.sqrt}
BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "lt": torch.lt,
    "eq": torch.eq,
    "cat_first": lambda x, y: torch.cat([x, y], 0),
    "cat_last": lambda x, y: torch.cat([x, y], -1),
}
OTHERS = {
    "add_row": (lambda d, t: [signed(d, t), signed(d[1:], t, 1)], torch.add),
    "where": (
        lambda d, t: [indices(d, 2).to(torch.bool), signed(d, t), signed(d, t, 1)],
        torch.where,
    ),
    "index_select": (
        lambda d, t: [signed(d, t), indices(d[:1], d[0])],
        lambda x, i: x.index_select(0, i),
    ),
    "gather": (
        lambda d, t: [signed(d, t), indices(d, d[-1])],
        lambda x, i: x.gather(-1, i),
    ),
    "layer_norm": (
        lambda d, t: [signed(d, t), positive(d[-1:], t, 1), signed(d[-1:], t, 2)],
        lambda x, a, b: F.layer_norm(x, x.shape[-1:], a, b, 1e-5),
    ),
    "rms_norm": (
        lambda d, t: [signed(d, t), positive(d[-1:], t, 1)],
        lambda x, a: F.rms_norm(x, x.shape[-1:], a, 1e-5),
    ),
    "matmul": (
        lambda d, t: [signed([d[0], d[1], d[3]], t), signed([d[0], d[3], d[2]], t, 1)],
        torch.matmul,
    ),
    "linear": (
        lambda d, t: [signed([d[0], d[1], d[3]], t), signed([d[0], d[2], d[3]], t, 1)],
        lambda x, y: torch.matmul(x, y.transpose(1, 2)),
    ),
}


def attention(op, dims, dtype):
    """FlashAttention-2 as PyTorch carries it, and cuDNN for one query: dimensions as in benches/worker/src/attention.rs."""
    if op == "attend":
        heads, kv_heads, length, elements = dims
        inputs = [signed([1, n, m, elements], dtype, seed) for seed, (n, m) in enumerate([(heads, 1)] + [(kv_heads, length)] * 2)]

        def attend(q, k, v):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

        return inputs, attend
    causal, backward = "_causal" in op, op.endswith("_backward")

    def forward(q, k, v):
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    # (batch, heads, length, elements), of tensors whose heads lie within a token, as a model's do.
    batch, heads, length, elements = dims
    with torch.inference_mode(not backward):
        inputs = [signed([batch, length, heads, elements], dtype, seed).transpose(1, 2) for seed in range(3)]
        if not backward:
            return inputs, forward
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in inputs]
            result = forward(*inputs)
            ones = torch.ones_like(result)

    def gradients():
        with torch.inference_mode(False), torch.enable_grad():
            return torch.autograd.grad(result, inputs, ones, retain_graph=True)

    return [], gradients


def training(op, dims, dtype):
    """Losses and optimisers: dimensions as in benches/worker/src/training.rs."""
    if op == "adamw":
        tensors, elements = dims
        with torch.inference_mode(False):
            weights = [torch.nn.Parameter(signed([elements], dtype, seed).clone()) for seed in range(tensors)]
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            optimizer = torch.optim.AdamW(weights, lr=1e-3, fused=True)

        def step():
            with torch.inference_mode(False):
                optimizer.step()

        return [], step
    if op == "linear_cross_entropy":
        rows, width, columns = dims
        with torch.inference_mode(False):
            hidden = signed([rows, width], dtype).clone().requires_grad_()
            weight = (signed([columns, width], dtype, 1) * 0.02).clone().requires_grad_()
            targets = indices([rows], columns).clone()

        def both():
            with torch.inference_mode(False), torch.enable_grad():
                return torch.autograd.grad(F.cross_entropy(hidden @ weight.t(), targets), [hidden, weight])

        return [], both
    rows, columns = dims
    if op == "cross_entropy":
        return [signed(dims, dtype), indices([rows], columns)], F.cross_entropy
    with torch.inference_mode(False):
        logits, targets = signed(dims, dtype).clone().requires_grad_(), indices([rows], columns).clone()

    def gradient():
        with torch.inference_mode(False), torch.enable_grad():
            return torch.autograd.grad(F.cross_entropy(logits, targets), logits)

    return [], gradient


def convolution(op, dims, dtype):
    """By cuDNN, without TF32: dimensions as in benches/worker/src/convolutions.rs."""
    batch, channels, size, outputs, kernel, stride, groups = dims
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    axes = 1 if op.endswith("_1d") else 2
    up = "_up" in op
    first = [channels, outputs] if up else [outputs, channels // groups]
    x = signed([batch, channels] + [size] * axes, dtype)
    weight = signed(first + [kernel] * axes, dtype, 1)
    if op == "convolution_nhwc":
        x, weight = (y.to(memory_format=torch.channels_last) for y in (x, weight))
    if up:
        run = F.conv_transpose1d if axes == 1 else F.conv_transpose2d
        return [x, weight], lambda x, w: run(x, w, stride=stride, padding=kernel // 4)
    run = F.conv1d if axes == 1 else F.conv2d
    padding = 0 if stride == kernel and kernel > 1 else kernel // 2

    def forward(x, w):
        return run(x, w, stride=stride, padding=padding, groups=groups)

    if op not in ("convolution_data", "convolution_weights"):
        return [x, weight], forward
    with torch.inference_mode(False), torch.enable_grad():
        x, weight = x.clone(), weight.clone()
        wanted = (x if op == "convolution_data" else weight).requires_grad_()
        result = forward(x, weight)
        ones = torch.ones_like(result)

    def gradients():
        with torch.inference_mode(False), torch.enable_grad():
            return torch.autograd.grad(result, wanted, ones, retain_graph=True)

    return [], gradients


def operator(case):
    """The inputs of a case and what to run on them."""
    op, dims, dtype = case["op"], case["dims"], DTYPES.get(case["dtype"])
    if dtype is None:
        raise Absent
    if op.startswith("atten"):
        return attention(op, dims, dtype)
    if op.startswith("convolution"):
        return convolution(op, dims, dtype)
    if "cross_entropy" in op or op == "adamw":
        return training(op, dims, dtype)
    if op in UNARY:
        return [signed(dims, dtype)], UNARY[op]
    if op in POSITIVE:
        return [positive(dims, dtype)], POSITIVE[op]
    if op in BINARY:
        return [signed(dims, dtype), positive(dims, dtype, 1)], BINARY[op]
    if op in OTHERS:
        make, run = OTHERS[op]
        return make(dims, dtype), run
    raise Absent


class Absent(Exception):
    """PyTorch has no such operator."""


class Filler:
    """A copy that keeps the GPU busy while operators are enqueued behind it."""

    def __init__(self, size):
        self.source = torch.zeros(size, dtype=torch.uint8, device=DEVICE)
        self.target = torch.empty_like(self.source)
        self.target.copy_(self.source)
        start, end = event(), event()
        start.record()
        for _ in range(16):
            self.target.copy_(self.source)
        end.record()
        end.synchronize()
        self.cost_us = max(start.elapsed_time(end) * 1e3 / 16, 1)

    def fill(self, busy_us):
        for _ in range(math.ceil(busy_us / self.cost_us)):
            self.target.copy_(self.source)


def event():
    return torch.cuda.Event(enable_timing=True)


class Prepared:
    def __init__(self, case, settings):
        inputs, self.run = operator(case)
        size = sum(x.numel() * x.element_size() for x in inputs)
        copies = min(max(-(-settings["rotate_bytes"] // max(size, 1)), 1), MOST_SETS)
        self.sets = [[x.clone() for x in inputs] for _ in range(copies - 1)] + [inputs]
        self.repeats, self.host_us = 2, 0.0

    def span(self, filler, busy_us):
        """Microseconds of one operator on the GPU and on the CPU, and whether the GPU began too early."""
        start, end = event(), event()
        torch.cuda.synchronize()
        filler.fill(busy_us)
        self.run(*self.sets[0])
        start.record()
        began = time.perf_counter()
        for i in range(self.repeats):
            self.run(*self.sets[i % len(self.sets)])
        end.record()
        host_us = (time.perf_counter() - began) * 1e6
        starved = start.query()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / self.repeats, host_us / self.repeats, starved

    def choose_repeats(self, filler, settings):
        self.span(filler, 0)
        for _ in range(2):
            device_us, self.host_us, _ = self.span(filler, 1000 + 1.5 * self.host_us * self.repeats)
            wanted = math.ceil(settings["span_us"] / max(device_us, 0.1))
            self.repeats = min(max(wanted, 1), settings["max_repeats"])

    def measure(self, filler, settings):
        samples, any_starved = [], False
        for _ in range(settings["samples"]):
            busy_us = 200 + 1.3 * self.host_us * self.repeats
            for _ in range(4):
                device_us, _, starved = self.span(filler, busy_us)
                if not starved:
                    break
                busy_us *= 2
            samples.append(device_us)
            any_starved |= starved
        return {"samples_us": samples, "bytes": 0, "flops": 0, "starved": any_starved, "probe": []}


# As benches/worker/src/models.rs has them: hidden, inner, layers, heads, heads of keys, vocabulary, one matrix for tokens
# and logits.
MODELS = {
    "llama-1b": (2048, 8192, 16, 32, 8, 128_256, True),
    "llama-8b": (4096, 14_336, 32, 32, 8, 128_256, False),
}


class Model:
    """LLaMA with random weights, as one writes it for speed: few products, a cache that stays in place, and a token as one
    CUDA graph, which reads the position from the GPU."""

    def __init__(self, case, settings):
        dtype = DTYPES.get(case["dtype"])
        if case["op"] not in MODELS or dtype not in (torch.float16, torch.bfloat16):
            raise Absent
        hidden, inner, layers, self.heads, self.kv_heads, self.vocabulary, tied = MODELS[case["op"]]
        self.dim = hidden // self.heads
        # Masked keys take time: no more room than there are tokens.
        self.capacity = -(-(settings["prompt"] + settings["decode"] + 1) // 64) * 64

        def weight(rows, columns):
            return torch.empty(rows, columns, dtype=dtype, device=DEVICE).uniform_(-1, 1).mul_(math.sqrt(3 / columns))

        kv = self.kv_heads * self.dim
        self.layers = [
            {
                "qkv": weight(hidden + 2 * kv, hidden),
                "output": weight(hidden, hidden),
                "gate_up": weight(2 * inner, hidden),
                "down": weight(hidden, inner),
                "norms": [torch.ones(hidden, dtype=dtype, device=DEVICE) for _ in range(2)],
                "cache": torch.zeros(2, 1, self.kv_heads, self.capacity, self.dim, dtype=dtype, device=DEVICE),
            }
            for _ in range(layers)
        ]
        self.norm = torch.ones(hidden, dtype=dtype, device=DEVICE)
        self.embedding = weight(self.vocabulary, hidden)
        self.head = self.embedding if tied else weight(self.vocabulary, hidden)
        places = torch.arange(self.capacity, device=DEVICE)
        angles = places[:, None] / 500_000 ** (torch.arange(0, self.dim, 2, device=DEVICE) / self.dim)
        self.cos, self.sin = (torch.cat([f(angles)] * 2, -1).to(dtype) for f in (torch.cos, torch.sin))
        self.places = places
        self.token = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.position = torch.zeros(1, dtype=torch.long, device=DEVICE)
        self.graph = None

    def turned(self, x, cos, sin):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat([-high, low], -1) * sin

    def forward(self, tokens, positions, mask):
        count = tokens.shape[0]
        cos, sin = self.cos[positions], self.sin[positions]
        x = self.embedding[tokens]
        for layer in self.layers:
            normed = F.rms_norm(x, x.shape[-1:], layer["norms"][0], 1e-5)
            qkv = F.linear(normed, layer["qkv"]).view(count, -1, self.dim).transpose(0, 1).unsqueeze(0)
            q, k, v = qkv.split([self.heads, self.kv_heads, self.kv_heads], 1)
            keys, values = layer["cache"]
            keys.index_copy_(2, positions, self.turned(k, cos, sin))
            values.index_copy_(2, positions, v)
            if mask is None:
                keys, values = keys[:, :, :count], values[:, :, :count]
            attended = F.scaled_dot_product_attention(
                self.turned(q, cos, sin), keys, values, attn_mask=mask, is_causal=mask is None, enable_gqa=True
            )
            x = x + F.linear(attended.transpose(1, 2).reshape(count, -1), layer["output"])
            normed = F.rms_norm(x, x.shape[-1:], layer["norms"][1], 1e-5)
            gate, up = F.linear(normed, layer["gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(F.rms_norm(x[-1:], x.shape[-1:], self.norm, 1e-5), self.head)

    def step(self):
        logits = self.forward(self.token, self.position, (self.places <= self.position)[None, None, None])
        self.token.copy_(logits.argmax(-1))
        self.position.add_(1)

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.position.zero_()
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def measure(self, _, settings):
        if self.graph is None:
            self.capture()
            self.once(settings)
        speeds = {"prefill": [], "decode": [], "tokens": [], "repeatable": True}
        for _ in range(settings["samples"]):
            prefill, decode = self.once(settings)
            speeds["prefill"].append(prefill)
            speeds["decode"].append(decode)
        return speeds

    def once(self, settings):
        prompt = torch.arange(settings["prompt"], device=DEVICE) * 7919 % self.vocabulary
        torch.cuda.synchronize()
        began = time.perf_counter()
        logits = self.forward(prompt, self.places[: len(prompt)], None)
        self.token.copy_(logits.argmax(-1))
        torch.cuda.synchronize()
        prefill_s = time.perf_counter() - began
        self.position.fill_(len(prompt))
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(settings["decode"]):
            self.graph.replay()
        torch.cuda.synchronize()
        return len(prompt) / prefill_s, settings["decode"] / (time.perf_counter() - began)


def main():
    answers = sys.stdout

    def send(answer):
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    if not torch.cuda.is_available():
        send({"error": "PyTorch sees no GPU"})
        return
    send({"hello": {"gpu": torch.cuda.get_device_name(DEVICE)}})
    last, prepared, filler = None, None, None
    for line in sys.stdin:
        request = json.loads(line)
        case, settings = request["case"], request["settings"]
        try:
            if case["kind"] in ("host", "network"):
                raise Absent
            if filler is None:
                filler = Filler(settings["filler_bytes"])
            if case != last:
                # What the last case held is free before the next one asks for memory.
                last, prepared = None, None
                torch.cuda.empty_cache()
                if case["kind"] == "model":
                    prepared = Model(case, settings)
                else:
                    prepared = Prepared(case, settings)
                    prepared.choose_repeats(filler, settings)
                last = case
            send({case["kind"]: prepared.measure(filler, settings)})
        except Absent:
            send("absent")
        except Exception as error:  # one case must not end the run
            send({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    with torch.inference_mode():
        main()
