//! The commands as a person uses them: what they print, and what they say when something is wrong.

use std::path::Path;

use anyhow::{ensure, Result};
use assert_cmd::Command;
use candle_rocm_examples::shipped_model;
use serde_json::json;

fn command(bin: &str) -> Command {
    let path = match bin {
        "llama" => env!("CARGO_BIN_EXE_llama"),
        "quantized-llama" => env!("CARGO_BIN_EXE_quantized-llama"),
        _ => env!("CARGO_BIN_EXE_gpt2"),
    };
    let mut command = Command::new(path);
    // A backtrace would add lines to the one that a person reads.
    command
        .env_remove("RUST_BACKTRACE")
        // candle's threads wait for each other by spinning: beside other tests, one is faster than several.
        .env("RAYON_NUM_THREADS", "1")
        .args(["--device", "cpu"]);
    command
}

fn converter(model: &Path, to: &str, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gguf-convert"));
    command.env_remove("RUST_BACKTRACE");
    command.arg("--model").arg(model).args(["--to", to]);
    command.arg("--out").arg(out);
    command
}

struct Output {
    success: bool,
    stdout: String,
    stderr: String,
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output()?;
    Ok(Output {
        success: output.status.success(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

/// The command fails with one line on standard error that holds every word.
fn fails(command: &mut Command, words: &[&str]) -> Result<()> {
    let output = run(command)?;
    ensure!(!output.success, "succeeded with {:?}", output.stdout);
    ensure!(
        output.stdout.is_empty(),
        "wrote {:?} before failing",
        output.stdout
    );
    ensure!(
        output.stderr.lines().count() == 1,
        "not one line: {}",
        output.stderr
    );
    for word in words {
        ensure!(
            output.stderr.contains(word),
            "{:?} does not hold {word:?}",
            output.stderr
        );
    }
    Ok(())
}

/// A copy of a shipped model to damage.
fn copy(name: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for file in [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "model.safetensors",
    ] {
        std::fs::copy(shipped_model(name).join(file), folder.path().join(file))?;
    }
    Ok(folder)
}

fn with(bin: &str, folder: &Path, prompt: &str) -> Command {
    let mut command = command(bin);
    command
        .arg("--model")
        .arg(folder)
        .args(["--prompt", prompt]);
    command
}

#[test]
fn a_sum_is_solved() -> Result<()> {
    for (prompt, expected) in [
        ("47+85=", "47+85=132\n"),
        ("12 + 34 =", "12 + 34 =46\n"),
        ("99+99=", "99+99=198\n"),
    ] {
        let output = run(command("gpt2").args(["--prompt", prompt, "--temperature", "0"]))?;
        ensure!(
            output.success && output.stdout == expected,
            "{:?} {}",
            output.stdout,
            output.stderr
        );
        for word in ["prompt: ", "generated: ", "tokens/s", "device: CPU"] {
            ensure!(
                output.stderr.contains(word),
                "{:?} does not hold {word:?}",
                output.stderr
            );
        }
    }
    Ok(())
}

#[test]
fn a_prompt_that_the_tokenizer_does_not_know_is_remarked_on() -> Result<()> {
    for (prompt, expected) in [("four+2=", true), ("4+2=", false)] {
        let output = run(command("gpt2").args(["--prompt", prompt]))?;
        ensure!(output.success, "{}", output.stderr);
        let remarked = output.stderr.contains("unknown to this model's tokenizer");
        ensure!(remarked == expected, "{prompt}: {}", output.stderr);
    }
    Ok(())
}

#[test]
fn a_story_is_the_recorded_one() -> Result<()> {
    let truth: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(
        shipped_model("llama-stories").join("truth.json"),
    )?)?;
    let case = &truth["cases"][0];
    let (Some(prompt), Some(text)) = (case["prompt"].as_str(), case["text"].as_str()) else {
        anyhow::bail!("the truth has no first case");
    };
    let arguments = [
        "--prompt",
        prompt,
        "--temperature",
        "0",
        "--max-tokens",
        "60",
    ];
    let output = run(command("llama").args(arguments))?;
    ensure!(output.success, "{}", output.stderr);
    let written = output
        .stdout
        .trim_end()
        .strip_prefix(prompt)
        .unwrap_or_default();
    ensure!(
        written.len() > 100 && text.starts_with(written),
        "wrote {written:?}, expected {text:?}"
    );
    Ok(())
}

#[test]
fn a_story_is_written_by_quantised_weights() -> Result<()> {
    let arguments = ["--prompt", "Once upon a time", "--temperature", "0"];
    for (format, expected) in [(None, "q8_0"), (Some("q4_k"), "q4_K")] {
        let mut command = command("quantized-llama");
        command.args(arguments).args(["--max-tokens", "40"]);
        command.args(format.map(|f| ["--format", f]).iter().flatten());
        let output = run(&mut command)?;
        ensure!(output.success, "{}", output.stderr);
        ensure!(
            output.stdout.starts_with("Once upon a time") && output.stdout.len() > 100,
            "{:?}",
            output.stdout
        );
        let quantised = format!("to {expected} in memory");
        for word in [quantised.as_str(), "llama-stories", "device: CPU"] {
            ensure!(output.stderr.contains(word), "{:?}", output.stderr);
        }
    }
    Ok(())
}

/// With no tokenizer.json beside it: the file has its own.
#[test]
fn a_converted_file_needs_nothing_beside_it() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let stories = shipped_model("llama-stories");
    let truth: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(stories.join("truth.json"))?)?;
    let case = &truth["cases"][0];
    let (Some(prompt), Some(text)) = (case["prompt"].as_str(), case["text"].as_str()) else {
        anyhow::bail!("the truth has no first case");
    };
    for format in ["f32", "q8_0", "q4_K", "q6_K"] {
        let file = folder.path().join(format!("{format}.gguf"));
        let output = run(&mut converter(&stories, format, &file))?;
        ensure!(output.success, "{}", output.stderr);
        for line in [
            format!("token_embd.weight: {format} [1280, 256]"),
            format!("blk.3.ffn_down.weight: {format} [256, 512]"),
            "output_norm.weight: f32 [256]".to_string(),
            format!("{format}.gguf: {} bytes", std::fs::metadata(&file)?.len()),
        ] {
            ensure!(output.stdout.contains(&line), "{line}: {}", output.stdout);
        }
        for bin in ["llama", "quantized-llama"] {
            let mut alone = with(bin, &file, prompt);
            let alone = run(alone.args(["--temperature", "0", "--max-tokens", "60"]))?;
            ensure!(alone.success, "{bin}, {format}: {}", alone.stderr);
            let mut told = with(bin, &file, prompt);
            told.arg("--tokenizer").arg(stories.join("tokenizer.json"));
            let told = run(told.args(["--temperature", "0", "--max-tokens", "60"]))?;
            ensure!(
                alone.stdout == told.stdout,
                "{bin}, {format}: {:?} and {:?}",
                alone.stdout,
                told.stdout
            );
            ensure!(!alone.stderr.contains("in memory"), "{}", alone.stderr);
            let written = alone.stdout.trim_end().strip_prefix(prompt);
            let written = written.unwrap_or_default();
            ensure!(written.len() > 100, "{bin}, {format}: {written:?}");
            // Unquantised, it is PyTorch's text.
            ensure!(
                format != "f32" || text.starts_with(written),
                "{bin}: {written:?}"
            );
        }
    }
    // A tokenizer.json beside the file goes first, so a broken one is not passed over.
    std::fs::write(folder.path().join("tokenizer.json"), "{")?;
    let file = folder.path().join("q8_0.gguf");
    fails(
        &mut with("quantized-llama", &file, "Once"),
        &["tokenizer.json"],
    )
}

#[test]
fn what_cannot_be_converted_or_run_quantised_is_explained() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("out.gguf");
    let stories = shipped_model("llama-stories");
    fails(
        &mut converter(&shipped_model("gpt2-sums"), "q4_K", &out),
        &["gpt2-sums", "config.json", "`gpt2`", "`llama`"],
    )?;
    fails(
        &mut converter(Path::new("/no/such/folder"), "q4_K", &out),
        &["/no/such/folder"],
    )?;
    fails(
        &mut converter(&stories, "q4_K", &folder.path().join("out.bin")),
        &["out.bin", "must end in .gguf"],
    )?;
    fails(
        &mut converter(&stories, "q4_K", Path::new("/no/such/folder/out.gguf")),
        &["/no/such/folder/out.gguf"],
    )?;
    let broken = copy("llama-stories")?;
    let weights = broken.path().join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&weights, &candle_core::Device::Cpu)?;
    tensors.remove("model.layers.1.mlp.up_proj.weight");
    candle_core::safetensors::save(&tensors, &weights)?;
    fails(
        &mut converter(broken.path(), "q4_K", &out),
        &["has no tensor `model.layers.1.mlp.up_proj.weight`"],
    )?;
    std::fs::write(&weights, "cut")?;
    fails(
        &mut converter(broken.path(), "q4_K", &out),
        &["model.safetensors", "truncated"],
    )?;
    ensure!(
        std::fs::read_dir(folder.path())?.count() == 0,
        "a failure left a file"
    );

    // What clap says takes more than a line.
    let mut bad = command("quantized-llama");
    for command in [
        bad.args(["--prompt", "x", "--format", "q9"]),
        &mut converter(&stories, "q9", &out),
    ] {
        let output = run(command)?;
        ensure!(!output.success, "{}", output.stdout);
        for word in ["'q9'", "q8_0", "q4_K", "q6_K"] {
            ensure!(output.stderr.contains(word), "{}", output.stderr);
        }
    }
    fails(
        &mut with("quantized-llama", Path::new("/no/file.gguf"), "x"),
        &["/no/file.gguf: no such file"],
    )?;
    fails(
        command("quantized-llama").args(["--prompt", "x", "--dtype", "bf16"]),
        &["--dtype bf16", "f32"],
    )?;
    std::fs::write(&out, "GGUF, or so it says")?;
    for bin in ["llama", "quantized-llama"] {
        fails(&mut with(bin, &out, "x"), &["out.gguf", "truncated"])?;
        fails(&mut with(bin, &weights, "x"), &["model.safetensors"])?;
    }
    Ok(())
}

#[test]
fn the_prompt_can_come_from_standard_input() -> Result<()> {
    let output = run(command("gpt2")
        .args(["--prompt", "-", "--temperature", "0"])
        .write_stdin("20+22=\n"))?;
    ensure!(
        output.success && output.stdout == "20+22=42\n",
        "{:?} {}",
        output.stdout,
        output.stderr
    );
    fails(
        command("gpt2").args(["--prompt", "-"]).write_stdin(""),
        &["the prompt is empty"],
    )
}

#[test]
fn the_seed_decides() -> Result<()> {
    let story = |seed: &str, extra: &[&str]| -> Result<String> {
        let arguments = [
            "--prompt",
            "Once upon a time",
            "--temperature",
            "1.2",
            "--max-tokens",
            "60",
            "--seed",
            seed,
        ];
        let output = run(command("llama").args(arguments).args(extra))?;
        ensure!(output.success, "{}", output.stderr);
        Ok(output.stdout)
    };
    let first = story("1", &[])?;
    ensure!(first == story("1", &[])?, "the same seed gave another text");
    ensure!(first != story("2", &[])?, "another seed gave the same text");
    // A choice among one is greedy, whatever the seed.
    ensure!(story("1", &["--top-k", "1"])? == story("2", &["--top-k", "1"])?);
    ensure!(story("1", &["--top-p", "0.0001"])? == story("2", &["--top-p", "0.0001"])?);
    Ok(())
}

#[test]
fn a_repeat_penalty_changes_the_text() -> Result<()> {
    let story = |penalty: &str| -> Result<String> {
        let arguments = [
            "--prompt",
            "Once upon a time",
            "--temperature",
            "0",
            "--max-tokens",
            "60",
        ];
        Ok(run(command("llama")
            .args(arguments)
            .args(["--repeat-penalty", penalty]))?
        .stdout)
    };
    ensure!(story("1")? != story("3")?);
    Ok(())
}

#[test]
fn half_precision_solves_sums_too() -> Result<()> {
    for dtype in ["f16", "bf16"] {
        let arguments = ["--prompt", "47+85=", "--temperature", "0", "--dtype", dtype];
        let output = run(command("gpt2").args(arguments))?;
        ensure!(
            output.success && output.stdout == "47+85=132\n",
            "{dtype}: {:?} {}",
            output.stdout,
            output.stderr
        );
    }
    Ok(())
}

#[test]
fn a_full_context_ends_the_text_with_a_note() -> Result<()> {
    let folder = copy("llama-stories")?;
    let path = folder.path().join("config.json");
    let mut config: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
    config["max_position_embeddings"] = json!(24);
    std::fs::write(&path, config.to_string())?;
    let output = run(&mut with(
        "llama",
        folder.path(),
        "Once upon a time, there was",
    ))?;
    ensure!(output.success, "{}", output.stderr);
    ensure!(
        output.stderr.contains("context of 24 tokens is full"),
        "{}",
        output.stderr
    );
    let long = "Once upon a time, there was a fox. ".repeat(5);
    fails(
        &mut with("llama", folder.path(), &long),
        &["the prompt has", "the model's context 24", "shorten"],
    )
}

#[test]
fn an_index_of_shards_is_followed() -> Result<()> {
    let folder = copy("gpt2-sums")?;
    let whole = folder.path().join("model.safetensors");
    let tensors = candle_core::safetensors::load(&whole, &candle_core::Device::Cpu)?;
    std::fs::remove_file(&whole)?;
    let mut shards = [
        std::collections::HashMap::new(),
        std::collections::HashMap::new(),
    ];
    let mut map = serde_json::Map::new();
    for (i, (name, tensor)) in tensors.into_iter().enumerate() {
        map.insert(name.clone(), json!(format!("part-{}.safetensors", i % 2)));
        // As the bare model is saved: without the prefix.
        shards[i % 2].insert(name.trim_start_matches("transformer.").to_string(), tensor);
    }
    for (i, shard) in shards.iter().enumerate() {
        candle_core::safetensors::save(shard, folder.path().join(format!("part-{i}.safetensors")))?;
    }
    std::fs::write(
        folder.path().join("model.safetensors.index.json"),
        json!({"weight_map": map}).to_string(),
    )?;
    let mut command = with("gpt2", folder.path(), "47+85=");
    let output = run(command.args(["--temperature", "0"]))?;
    ensure!(
        output.success && output.stdout == "47+85=132\n",
        "{:?} {}",
        output.stdout,
        output.stderr
    );
    std::fs::remove_file(folder.path().join("part-1.safetensors"))?;
    fails(
        &mut with("gpt2", folder.path(), "1+1="),
        &["part-1.safetensors"],
    )
}

#[test]
fn wrong_options_are_explained() -> Result<()> {
    for (option, value, word) in [
        ("--temperature", "-1", "--temperature is -1"),
        ("--temperature", "nan", "--temperature"),
        ("--top-p", "0", "--top-p is 0"),
        ("--top-p", "1.5", "--top-p is 1.5"),
        ("--top-k", "0", "--top-k is 0"),
        ("--repeat-penalty", "0", "--repeat-penalty is 0"),
        (
            "--model",
            "/no/such/folder",
            "/no/such/folder: no such file",
        ),
        (
            "--tokenizer",
            "/no/tokenizer.json",
            "/no/tokenizer.json: no such file",
        ),
    ] {
        fails(
            command("gpt2").args(["--prompt", "1+1=", option, value]),
            &[word],
        )?;
    }
    for prompt in ["", "   "] {
        fails(
            command("gpt2").args(["--prompt", prompt]),
            &["the prompt is empty"],
        )?;
    }
    Ok(())
}

#[test]
fn damaged_files_are_named() -> Result<()> {
    for bin in ["llama", "quantized-llama", "gpt2"] {
        let name = if bin == "gpt2" {
            "gpt2-sums"
        } else {
            "llama-stories"
        };
        for file in ["config.json", "tokenizer.json", "model.safetensors"] {
            let folder = copy(name)?;
            let path = folder.path().join(file);
            let bytes = std::fs::read(&path)?;
            for keep in [0, 7, bytes.len() / 2, bytes.len() - 3] {
                std::fs::write(&path, &bytes[..keep])?;
                fails(&mut with(bin, folder.path(), "1+1="), &[file])?;
            }
            std::fs::remove_file(&path)?;
            fails(
                &mut with(bin, folder.path(), "1+1="),
                &[file, "o such file"],
            )?;
        }
    }
    Ok(())
}

#[test]
fn weights_that_do_not_fit_are_named() -> Result<()> {
    let folder = copy("llama-stories")?;
    let path = folder.path().join("config.json");
    let text = std::fs::read_to_string(&path)?;
    for (field, value, words) in [
        (
            "num_hidden_layers",
            json!(9),
            vec!["has no tensor `model.layers.4."],
        ),
        ("intermediate_size", json!(100), vec!["gate_proj", "shape"]),
        ("model_type", json!("gemma"), vec!["config.json", "gemma"]),
        ("hidden_size", json!(-3), vec!["config.json"]),
        (
            "eos_token_id",
            json!("end"),
            vec!["config.json", "eos_token_id"],
        ),
    ] {
        let mut config: serde_json::Value = serde_json::from_str(&text)?;
        config[field] = value;
        std::fs::write(&path, config.to_string())?;
        fails(&mut with("llama", folder.path(), "Once"), &words)?;
    }
    Ok(())
}

#[test]
fn weights_of_a_wrong_dtype_are_named() -> Result<()> {
    let folder = copy("gpt2-sums")?;
    let path = folder.path().join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&path, &candle_core::Device::Cpu)?;
    let bad = tensors["transformer.wte.weight"].to_dtype(candle_core::DType::U8)?;
    tensors.insert("transformer.wte.weight".to_string(), bad);
    candle_core::safetensors::save(&tensors, &path)?;
    let words = ["model.safetensors", "transformer.wte.weight", "U8", "F32"];
    fails(&mut with("gpt2", folder.path(), "1+1="), &words)
}

#[test]
fn weights_that_are_not_numbers_are_noticed() -> Result<()> {
    let folder = copy("gpt2-sums")?;
    let path = folder.path().join("model.safetensors");
    let mut tensors = candle_core::safetensors::load(&path, &candle_core::Device::Cpu)?;
    let bad = (tensors["transformer.ln_f.bias"].clone() * f64::NAN)?;
    tensors.insert("transformer.ln_f.bias".to_string(), bad);
    candle_core::safetensors::save(&tensors, &path)?;
    let output = run(&mut with("gpt2", folder.path(), "1+1="))?;
    ensure!(
        !output.success && output.stderr.contains("not finite"),
        "{}",
        output.stderr
    );
    Ok(())
}

#[cfg(not(feature = "rocm"))]
#[test]
fn a_build_without_gpu_says_how_to_get_one() -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpt2"));
    fails(
        command.args(["--device", "rocm", "--prompt", "1+1="]),
        &["--features rocm"],
    )
}

/// Graphs that compute garbage are found out: the text is right, and why no graph is used is said once.
#[cfg(feature = "rocm")]
#[test]
fn wrong_graphs_are_not_used_and_that_is_said_once() -> Result<()> {
    let written = |fault: &str| -> Result<Output> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_llama"));
        command
            .env("CANDLE_ROCM_RUNTIME", "amd")
            .env(
                "CANDLE_ROCM_HIP_LIBRARY",
                candle_rocm_testing::stand_in::library(),
            )
            .env("ROCM_EMU_GRAPH_FAULT", fault)
            .args(["--prompt", "Once upon a time", "--temperature", "0"])
            .args(["--max-tokens", "12", "--stats"]);
        run(&mut command)
    };
    let right = written("")?;
    ensure!(right.success, "{}", right.stderr);
    ensure!(right.stderr.contains("1 graphs"), "{}", right.stderr);
    for (fault, off) in [("stale-copies", 0), ("stale", 1), ("garbage", 1)] {
        let output = written(fault)?;
        ensure!(output.stdout == right.stdout, "{fault}: {}", output.stdout);
        let said = output.stderr.matches("graphs are off on GPU 0").count();
        ensure!(said == off, "{fault}: {}", output.stderr);
    }
    Ok(())
}

#[cfg(feature = "rocm")]
#[test]
fn without_a_gpu_the_emulator_runs_and_says_so() -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpt2"));
    command
        .env_remove("CANDLE_ROCM_RUNTIME")
        // Cargo puts its target folder there, with the emulator's own libamdhip64.so, which passes for AMD's.
        .env_remove("LD_LIBRARY_PATH")
        .args(["--prompt", "47+85=", "--temperature", "0"]);
    let output = run(&mut command)?;
    ensure!(
        output.success && output.stdout == "47+85=132\n",
        "{:?} {}",
        output.stdout,
        output.stderr
    );
    if output.stderr.contains("emulated") {
        ensure!(
            output
                .stderr
                .starts_with("No AMD GPU was found: running on an emulated gfx"),
            "{}",
            output.stderr
        );
    }
    Ok(())
}
