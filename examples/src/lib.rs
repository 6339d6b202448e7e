//! LLaMA and GPT-2 on AMD GPUs with Candle.
