"""Trains the two shipped models and records what PyTorch makes of them.

    pip install -r models/train/requirements.txt
    python models/train/train.py --out models

Writes llama-stories/ and gpt2-sums/ in Hugging Face layout, each with truth.json and truth.safetensors: the
greedy tokens and the first step's logits for ten prompts, computed by `transformers` on the CPU in f32 from
the weights as shipped. Needs a few minutes on a data-centre GPU, hours on a CPU.
"""

import argparse
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import stories
import sums

BOS, EOS = "<s>", "</s>"
NEW_TOKENS = 96
PROMPTS = 10
# A greedy choice nearer than this between the best two logits could go either way in another order of
# summation; the recorded prompts hold none.
MARGIN = 2e-3


def log(*words):
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


def optimise(model, batch, loss_of, steps, peak, device, seconds, weight_decay=0.1):
    """AdamW with warm-up and a cosine to zero over `steps`, or over `seconds` when that ends earlier."""
    model.to(device).train()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.98), fused=device == "cuda")
    start = time.time()
    for step in range(steps):
        progress = max(step / steps, (time.time() - start) / seconds)
        if progress >= 1:
            break
        warm = min(1.0, (step + 1) / 200)
        for group in optimizer.param_groups:
            group["lr"] = peak * warm * 0.5 * (1 + math.cos(math.pi * progress))
        with torch.autocast(device, torch.bfloat16):
            loss = loss_of(model, batch(step))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            log(f"step {step} loss {loss.item():.4f}")
    log(f"step {step} loss {loss.item():.4f} in {time.time() - start:.0f} s")
    return model.eval()


def save(model, tokenizer, folder, dtype, special):
    """Hugging Face layout: config.json, generation_config.json, model.safetensors, tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    model.to("cpu").to(dtype).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **special}, indent=2) + "\n")


@torch.no_grad()
def greedy(model, ids, count):
    """(tokens, first logits, smallest margin between the best two logits), end of text ignored."""
    tokens, first, margin, past = list(ids), None, math.inf, None
    feed = torch.tensor([tokens])
    for _ in range(count):
        out = model(feed, past_key_values=past, use_cache=True)
        past, logits = out.past_key_values, out.logits[0, -1]
        first = logits if first is None else first
        best = logits.topk(2).values
        margin = min(margin, (best[0] - best[1]).item())
        tokens.append(int(logits.argmax()))
        feed = torch.tensor([tokens[-1:]])
    return tokens[len(ids):], first, margin


def record_truth(folder, prompts):
    """The first ten prompts without a near tie: their greedy continuations and first logits, on the CPU in f32."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    # The products are too small to gain from more threads.
    torch.set_num_threads(2)
    cases, logits = [], []
    for prompt in prompts:
        ids = tokenizer.encode(prompt).ids
        tokens, first, margin = greedy(model, ids, NEW_TOKENS)
        log(f"margin {margin:.4f} {prompt!r} -> {tokenizer.decode(tokens)!r}")
        if margin < MARGIN:  # Possible in any model; likelier where the text is free, as in an operand.
            continue
        cases.append({"prompt": prompt, "prompt_tokens": ids, "tokens": tokens, "text": tokenizer.decode(tokens),
                      "smallest_margin": margin})
        logits.append(first)
        if len(cases) == PROMPTS:
            break
    if len(cases) < PROMPTS:
        raise SystemExit(f"only {len(cases)} of the prompts are free of near ties; add prompts")
    made_by = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "dtype": "float32"}
    (folder / "truth.json").write_text(json.dumps({"made_by": made_by, "cases": cases}, indent=1) + "\n")
    save_file({"first_logits": torch.stack(logits).contiguous()}, folder / "truth.safetensors")


STORY_PROMPTS = [
    "Once upon a time, there was a little fox",
    "Once upon a time, there was a small mouse named Tess",
    "One sunny morning, Ben the bear",
    "There was a little girl named Luna who lived in a tall house in the town. One day,",
    "Once there was a shy hedgehog named Otto. He was afraid of the dark.",
    "Milo had a red kite. One windy day,",
    "It was Rosa's birthday.",
    "Lily the duck and Sam the frog were best friends.",
    "A long time ago, a brave rabbit named Hazel",
    '"I am lost," said the little lamb.',
    "One day, dark clouds came over the hill.",
    "Finn wanted to learn to swim.",
    "Once there was a kind bear named Leo. He found a basket full of apples.",
    "Poppy the squirrel wanted to bake a cake.",
    "Once upon a time, there was a dragon named Zola",
    "Max broke the blue cup.",
    "Under a tree Maya found a baby bird.",
    "Tom and Anna wanted to build a boat.",
    "One night, a star fell from the sky. Ivy",
    "Hugo the turtle was slow.",
    "Once there was a small boy called Gus. He",
    "The old owl said,",
    "Early one morning, Daisy went to the pond",
    "Every day, Felix played with his friend Nell.",
]


def train_stories(out, device, seconds, steps):
    """LLaMA architecture: byte-level BPE, grouped-query attention, rotary positions, tied embeddings; bf16."""
    folder = out / "llama-stories"
    texts = stories.stories(240_000)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts[:20_000], trainers.BpeTrainer(
        vocab_size=1280, special_tokens=[BOS, EOS], initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, 0)])
    vocabulary = tokenizer.get_vocab_size()
    encoded = [e.ids + [1] for e in tokenizer.encode_batch(texts)]
    lengths = np.array([len(e) for e in encoded])
    log(f"{len(texts)} stories, {lengths.sum()} tokens, longest {lengths.max()}, vocabulary {vocabulary}")

    window, rows = 384, 192
    stream = torch.tensor(np.concatenate([np.array(e) for e in encoded]), device=device)
    starts = torch.tensor(np.concatenate([[0], np.cumsum(lengths)[:-1]]), device=device)
    # The last stories of the stream are not trained on: a held-out loss.
    taught = starts[: len(starts) - 4_000]
    held_out = starts[len(starts) - 4_000 : len(starts) - 200]
    taught = taught[taught + window + 1 < held_out[0]]
    held_out = held_out[held_out + window + 1 < len(stream)]
    offsets = torch.arange(window + 1, device=device)

    def batch(_step, among=taught):
        at = among[torch.randint(len(among), (rows,), device=device)]
        return stream[at[:, None] + offsets]

    def loss_of(model, tokens):
        logits = model(tokens[:, :-1], use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=2, max_position_embeddings=512, rms_norm_eps=1e-5, tie_word_embeddings=True,
        bos_token_id=0, eos_token_id=1, pad_token_id=None, attention_bias=False)
    model = LlamaForCausalLM(config)
    log(f"llama-stories: {sum(p.numel() for p in model.parameters())} parameters")
    model = optimise(model, batch, loss_of, steps, 4e-3, device, seconds)
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
        held = sum(loss_of(model, batch(0, held_out)).item() for _ in range(8)) / 8
        seen = sum(loss_of(model, batch(0)).item() for _ in range(8)) / 8
    log(f"loss on stories never seen {held:.4f}, on the taught ones {seen:.4f}")
    save(model, tokenizer, folder, torch.bfloat16, {"bos_token": BOS, "eos_token": EOS})
    (folder / "figures.json").write_text(json.dumps(
        {"held_out_loss": round(held, 4), "training_loss": round(seen, 4), "stories": len(texts)}, indent=1) + "\n")
    record_truth(folder, STORY_PROMPTS)


@torch.no_grad()
def count_right(model, pairs, device):
    """How many of the sums greedy decoding gets exactly right, to the newline; and the first wrong ones."""
    right, wrong = 0, []
    by_length = {}
    for a, b in pairs:
        prompt = sums.encode(f"{a}+{b}=")
        by_length.setdefault(len(prompt), []).append((prompt, a, b))
    for group in by_length.values():
        tokens = torch.tensor([p for p, _, _ in group], device=device)
        width = tokens.shape[1]
        for _ in range(4):
            logits = model(tokens, use_cache=False).logits[:, -1]
            tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], 1)
        for (_, a, b), row in zip(group, tokens[:, width:].tolist()):
            expected = sums.encode(f"{a + b}\n")
            if row[: len(expected)] == expected:
                right += 1
            else:
                wrong.append(f"{a}+{b}")
    return right, wrong[:10]


def train_sums(out, device, seconds, steps):
    """GPT-2 architecture on characters; f16."""
    folder = out / "gpt2-sums"
    taught, held_out = sums.split()
    tokenizer = Tokenizer(models.BPE(vocab=sums.VOCABULARY, merges=[], unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "")
    tokenizer.decoder = decoders.Fuse()
    assert tokenizer.encode("47 + 85=\n").ids == sums.encode("47+85=\n")

    length, rows = 128, 1024
    tokens, answers = sums.rows(taught, 40_000, length, seed=3)
    tokens = torch.tensor(tokens, device=device)
    # The operands are noise to learn from; a little weight teaches what a sum looks like.
    weights = torch.where(torch.tensor(answers, device=device), 1.0, 0.05)

    def batch(_step):
        at = torch.randint(len(tokens), (rows,), device=device)
        return tokens[at], weights[at]

    def loss_of(model, both):
        t, w = both
        logits = model(t[:, :-1], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), t[:, 1:].flatten(), reduction="none")
        w = w[:, 1:].flatten()
        return (loss * w).sum() / w.sum()

    torch.manual_seed(2)
    config = GPT2Config(
        vocab_size=len(sums.VOCABULARY), n_positions=length, n_embd=128, n_layer=4, n_head=4, bos_token_id=sums.NEWLINE,
        eos_token_id=sums.NEWLINE, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, activation_function="gelu_new")
    model = GPT2LMHeadModel(config)
    log(f"gpt2-sums: {sum(p.numel() for p in model.parameters())} parameters, {len(taught)} pairs taught, {len(held_out)} held out")
    model = optimise(model, batch, loss_of, steps, 1e-3, device, seconds)
    save(model, tokenizer, folder, torch.float16, {"eos_token": "\n", "unk_token": "<unk>"})

    figures = {"taught": len(taught), "held_out": len(held_out)}
    for name, dtype in [("float16", torch.float16), ("float32", torch.float32), ("bfloat16", torch.bfloat16)]:
        shipped = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval().to(device)
        figures[f"held_out_right_{name}"], wrong = count_right(shipped, held_out, device)
        figures[f"taught_right_{name}"], _ = count_right(shipped, taught, device)
        log(f"{name}: {figures}, wrong {wrong}")
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    # One line a first operand: the second operands held out with it.
    lines = {a: " ".join(str(y) for x, y in held_out if x == a) for a in range(sums.HIGHEST + 1)}
    (folder / "held-out.txt").write_text("".join(f"{a}: {bs}\n" for a, bs in lines.items()))
    candidates = random.Random(11).sample(held_out, 1000)
    record_truth(folder, [f"{a}+{b}=" for a, b in candidates])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--only", choices=["stories", "sums"])
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop each training after this long")
    parser.add_argument("--story-steps", type=int, default=6000)
    parser.add_argument("--sum-steps", type=int, default=6000)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    log(f"torch {torch.__version__}, transformers {transformers.__version__}, {device}")
    if options.only != "stories":
        train_sums(options.out, device, options.seconds, options.sum_steps)
    if options.only != "sums":
        train_stories(options.out, device, options.seconds, options.story_steps)


if __name__ == "__main__":
    main()
