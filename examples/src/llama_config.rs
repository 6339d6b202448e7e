//! What a `config.json` says of a LLaMA, and whether candle's has it.

use anyhow::{ensure, Result};
use candle_transformers::models::llama as candle_llama;
use serde_json::{json, Value};

/// A `config.json` as candle's LLaMA takes it. Both ways in which transformers writes rotary positions are
/// understood: `rope_theta` and `rope_scaling` (before version 5), `rope_parameters` (since).
///
/// # Errors
/// A field is missing or malformed, or asks for what candle's LLaMA has not.
pub fn parse_config(json: &Value) -> Result<candle_llama::Config> {
    let mut json = json.clone();
    normalise_rope(&mut json)?;
    let is_set = |name: &str| json[name].as_bool() == Some(true);
    for name in ["attention_bias", "mlp_bias"] {
        ensure!(
            !is_set(name),
            "`{name}` is true: candle's LLaMA has no such bias"
        );
    }
    if let Some(activation) = json["hidden_act"].as_str() {
        ensure!(
            activation == "silu",
            "`hidden_act` is `{activation}`: candle's LLaMA has silu only"
        );
    }
    let head_dim = json["head_dim"].as_u64();
    let config: candle_llama::LlamaConfig = serde_json::from_value(json)?;
    let config = config.into_config(false);
    check(&config)?;
    if let Some(head_dim) = head_dim {
        let implied = config.hidden_size / config.num_attention_heads;
        ensure!(
            head_dim == implied as u64,
            "`head_dim` is {head_dim}: candle's LLaMA has hidden_size / num_attention_heads = {implied} only"
        );
    }
    Ok(config)
}

/// That sizes divide, so that nothing panics later.
pub(crate) fn check(c: &candle_llama::Config) -> Result<()> {
    for (name, value) in [
        ("vocab_size", c.vocab_size),
        ("hidden_size", c.hidden_size),
        ("num_attention_heads", c.num_attention_heads),
        ("num_key_value_heads", c.num_key_value_heads),
        ("max_position_embeddings", c.max_position_embeddings),
    ] {
        ensure!(value > 0, "`{name}` is 0");
    }
    ensure!(
        c.hidden_size.is_multiple_of(2 * c.num_attention_heads),
        "`hidden_size` {} is not an even multiple of `num_attention_heads` {}",
        c.hidden_size,
        c.num_attention_heads
    );
    ensure!(
        c.num_attention_heads.is_multiple_of(c.num_key_value_heads),
        "`num_attention_heads` {} is not a multiple of `num_key_value_heads` {}",
        c.num_attention_heads,
        c.num_key_value_heads
    );
    Ok(())
}

/// Rewrites rotary positions as candle reads them: `rope_theta`, and `rope_scaling` for Llama 3 or null.
pub(crate) fn normalise_rope(json: &mut Value) -> Result<()> {
    if json["rope_parameters"].is_object() {
        let rope = json["rope_parameters"].clone();
        if !rope["rope_theta"].is_null() {
            json["rope_theta"] = rope["rope_theta"].clone();
        }
        json["rope_scaling"] = rope;
    }
    let scaling = &json["rope_scaling"];
    if scaling.is_null() {
        return Ok(());
    }
    // Older files call the field `type`.
    let kind = ["rope_type", "type"]
        .iter()
        .find_map(|key| scaling[key].as_str());
    json["rope_scaling"] = match kind {
        None | Some("default") => Value::Null,
        Some("llama3") => json!({
            "rope_type": "llama3",
            "factor": scaling["factor"],
            "low_freq_factor": scaling["low_freq_factor"],
            "high_freq_factor": scaling["high_freq_factor"],
            "original_max_position_embeddings": scaling["original_max_position_embeddings"],
        }),
        Some(other) => {
            anyhow::bail!("rotary positions of type `{other}`: candle's LLaMA has `default` and `llama3` only")
        }
    };
    Ok(())
}
