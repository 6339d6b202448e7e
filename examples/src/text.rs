//! Text to tokens, and tokens to text that can be shown as they come.

use std::io::Write;
use std::path::Path;

use anyhow::{anyhow, ensure, Context, Result};
use tokenizers::Tokenizer;

/// Reads a `tokenizer.json`.
///
/// # Errors
/// It is missing or malformed; the text names the file.
pub fn load_tokenizer(path: &Path) -> Result<Tokenizer> {
    ensure!(
        path.is_file(),
        "{}: no such file; a tokenizer.json is needed beside the weights, or give --tokenizer",
        path.display()
    );
    Tokenizer::from_file(path).map_err(|e| anyhow!("{}: not a tokenizer: {e}", path.display()))
}

/// The prompt's tokens, with what the tokenizer puts before a text.
///
/// # Errors
/// The prompt is empty, or the tokenizer fails.
pub fn encode(tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<u32>> {
    ensure!(
        !prompt.trim().is_empty(),
        "the prompt is empty: give --prompt some text"
    );
    let encoding = tokenizer
        .encode(prompt, true)
        .map_err(|e| anyhow!("the tokenizer cannot read the prompt: {e}"))?;
    Ok(encoding.get_ids().to_vec())
}

/// Whether the tokenizer put its token for unknown text among these.
pub fn has_unknown(tokenizer: &Tokenizer, tokens: &[u32]) -> bool {
    ["<unk>", "[UNK]"]
        .iter()
        .filter_map(|unknown| tokenizer.token_to_id(unknown))
        .any(|unknown| tokens.contains(&unknown))
}

/// The text of tokens, special ones left out.
///
/// # Errors
/// The tokenizer does not know a token.
pub fn decode(tokenizer: &Tokenizer, tokens: &[u32]) -> Result<String> {
    tokenizer
        .decode(tokens, true)
        .map_err(|e| anyhow!("the tokenizer cannot write the text: {e}"))
}

/// Writes text as its tokens come. A character of several tokens is written when it is whole.
pub struct TextStream<'a, W: Write> {
    tokenizer: &'a Tokenizer,
    out: W,
    /// The tokens since the last place where the text was whole, that place's token first: decoders treat
    /// the first token of a text specially (its space), so one written token goes before the new ones.
    tokens: Vec<u32>,
    /// Bytes of the text of `tokens` that were written, or belong to the prompt.
    done: usize,
    /// Bytes written in all.
    total: usize,
}

impl<'a, W: Write> TextStream<'a, W> {
    /// A stream that goes on after `prompt`, which is not written.
    ///
    /// # Errors
    /// The tokenizer does not know a token of the prompt.
    pub fn new(tokenizer: &'a Tokenizer, prompt: &[u32], out: W) -> Result<Self> {
        let tokens = prompt.to_vec();
        let done = decode(tokenizer, &tokens)?.len();
        Ok(Self {
            tokenizer,
            out,
            tokens,
            done,
            total: 0,
        })
    }

    /// Takes one token, and writes and flushes what is whole.
    ///
    /// # Errors
    /// The tokenizer does not know the token, or writing fails.
    pub fn push(&mut self, token: u32) -> Result<()> {
        self.tokens.push(token);
        let text = decode(self.tokenizer, &self.tokens)?;
        // Bytes that are no whole character yet decode to U+FFFD.
        if text.ends_with('\u{FFFD}') {
            return Ok(());
        }
        self.write(&text)?;
        let whole = decode(self.tokenizer, &[token])?;
        if !whole.is_empty() && !whole.contains('\u{FFFD}') {
            self.done = whole.len();
            self.tokens = vec![token];
        }
        Ok(())
    }

    /// Bytes written so far.
    pub fn written(&self) -> usize {
        self.total
    }

    /// Writes what is left, whole or not.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<()> {
        let text = decode(self.tokenizer, &self.tokens)?;
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<()> {
        if let Some(new) = text.get(self.done..) {
            self.out
                .write_all(new.as_bytes())
                .and_then(|()| self.out.flush())
                .context("the text cannot be written")?;
            self.done = text.len();
            self.total += new.len();
        }
        Ok(())
    }
}
