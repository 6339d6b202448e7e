//! Text that streams: characters of several tokens, and spaces that decoders treat specially.

use anyhow::{anyhow, ensure, Result};
use candle_rocm_examples::shipped_model;
use candle_rocm_examples::text::{decode, load_tokenizer, TextStream};
use tokenizers::{decoders::metaspace::Metaspace, models::wordlevel::WordLevel, Tokenizer};

/// What the stream writes for `tokens` after `prompt`, piece by piece.
fn pieces(tokenizer: &Tokenizer, prompt: &[u32], tokens: &[u32]) -> Result<Vec<String>> {
    let mut out = Vec::new();
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut stream = TextStream::new(tokenizer, prompt, &mut out)?;
    for &token in tokens {
        stream.push(token)?;
        pieces.push(stream.written().to_string());
    }
    stream.finish()?;
    let all = String::from_utf8(out)?;
    // From running totals to pieces, and what `finish` added.
    for piece in &mut pieces {
        let end: usize = piece.parse()?;
        *piece = all[at..end].to_string();
        at = end;
    }
    pieces.push(all[at..].to_string());
    Ok(pieces)
}

#[test]
fn characters_of_several_tokens_come_whole() -> Result<()> {
    let tokenizer = load_tokenizer(&shipped_model("llama-stories").join("tokenizer.json"))?;
    for text in [
        " naïve café",
        " 日本語 and 🦊🦊!",
        "\n\n  two",
        " don't\tstop",
        " the little fox",
    ] {
        let tokens = tokenizer
            .encode(text, false)
            .map_err(|e| anyhow!(e))?
            .get_ids()
            .to_vec();
        let prompt = tokenizer
            .encode("Once", true)
            .map_err(|e| anyhow!(e))?
            .get_ids()
            .to_vec();
        let pieces = pieces(&tokenizer, &prompt, &tokens)?;
        ensure!(pieces.concat() == text, "{:?} became {pieces:?}", text);
        ensure!(pieces.iter().all(|p| !p.contains('\u{FFFD}')), "{pieces:?}");
        ensure!(
            pieces.last().is_some_and(String::is_empty),
            "{pieces:?}: something was held back"
        );
    }
    Ok(())
}

#[test]
fn half_a_character_at_the_end_is_shown_as_such() -> Result<()> {
    let tokenizer = load_tokenizer(&shipped_model("llama-stories").join("tokenizer.json"))?;
    let tokens = tokenizer
        .encode("🦊", false)
        .map_err(|e| anyhow!(e))?
        .get_ids()
        .to_vec();
    ensure!(tokens.len() == 4, "the fox is {} tokens", tokens.len());
    let pieces = pieces(&tokenizer, &[], &tokens[..3])?;
    ensure!(
        pieces[..3].iter().all(String::is_empty) && pieces[3].contains('\u{FFFD}'),
        "{pieces:?}"
    );
    Ok(())
}

#[test]
fn the_space_before_a_word_survives_decoders_that_strip_the_first() -> Result<()> {
    let vocabulary = [("<unk>", 0), ("▁a", 1), ("▁fox", 2), ("es", 3)];
    let model = WordLevel::builder()
        .vocab(
            vocabulary
                .iter()
                .map(|(k, v)| (k.to_string(), *v))
                .collect(),
        )
        .unk_token("<unk>".to_string())
        .build()
        .map_err(|e| anyhow!(e))?;
    let mut tokenizer = Tokenizer::new(model);
    tokenizer.with_decoder(Some(Metaspace::default()));
    ensure!(
        decode(&tokenizer, &[2])? == "fox",
        "this decoder strips the first space"
    );
    let pieces = pieces(&tokenizer, &[1], &[2, 3, 1])?;
    ensure!(pieces == [" fox", "es", " a", ""], "{pieces:?}");
    Ok(())
}
