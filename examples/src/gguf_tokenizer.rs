//! Byte-level BPE tokenizers in a GGUF file's metadata, written from a `tokenizer.json` and made into one again.

use std::path::Path;

use anyhow::{anyhow, bail, ensure, Context, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use serde_json::{json, Value as Json};
use tokenizers::Tokenizer;

use crate::checkpoint::read_json;
use crate::gguf::{integer, open};

const MODEL: &str = "tokenizer.ggml.model";
const PRE_TOKENIZER: &str = "tokenizer.ggml.pre";
const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const BOS: &str = "tokenizer.ggml.bos_token_id";
const EOS: &str = "tokenizer.ggml.eos_token_id";
const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";

/// llama.cpp's names for how a text is split.
const GPT2: &str = "gpt-2";
const LLAMA3: &str = "llama-bpe";

/// llama.cpp's kinds of token.
mod kind {
    pub const NORMAL: i32 = 1;
    /// Never part of a text, such as the end of one.
    pub const CONTROL: i32 = 3;
    /// Cut out of a text before the rest is split.
    pub const USER_DEFINED: i32 = 4;
    /// Fills a gap in the numbering.
    pub const UNUSED: i32 = 5;
}

/// How a text is split before merges, by llama.cpp's name: GPT-2's rule is that of `ByteLevel` itself, Llama 3
/// has one of its own.
fn pre_tokenizers() -> [(&'static str, Json); 2] {
    let bytes = |use_regex: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex,
        })
    };
    let llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let split = json!({
        "type": "Split", "pattern": {"Regex": llama3}, "behavior": "Isolated", "invert": false,
    });
    [
        (GPT2, bytes(true)),
        (
            LLAMA3,
            json!({"type": "Sequence", "pretokenizers": [split, bytes(false)]}),
        ),
    ]
}

/// `trim_offsets` moves where a token is said to be in the text, never which token it is.
fn without_offsets(pre_tokenizer: &Json) -> Json {
    let mut json = pre_tokenizer.clone();
    let forget = |part: &mut Json| {
        part.as_object_mut()
            .map(|fields| fields.remove("trim_offsets"))
    };
    forget(&mut json);
    if let Some(parts) = json.get_mut("pretokenizers").and_then(Json::as_array_mut) {
        parts.iter_mut().for_each(|part| {
            forget(part);
        });
    }
    json
}

/// A `tokenizer.json` as metadata.
#[derive(Debug)]
pub enum Described {
    /// Keys and values.
    Metadata(Vec<(String, Value)>),
    /// It is of a kind that is not written here; the text says why.
    Other(String),
}

/// Metadata of the tokenizer in `file`, a `tokenizer.json`, for a model of `vocabulary` tokens.
///
/// # Errors
/// The file is missing or malformed, or has tokens that the model does not know. The text names the file.
pub fn to_metadata(
    file: &Path,
    vocabulary: usize,
    bos: Option<u32>,
    eos: Option<u32>,
) -> Result<Described> {
    let tokenizer = crate::text::load_tokenizer(file)?;
    let json = read_json(file)?;
    describe(&tokenizer, &json, vocabulary, bos, eos).with_context(|| file.display().to_string())
}

fn describe(
    tokenizer: &Tokenizer,
    json: &Json,
    vocabulary: usize,
    bos: Option<u32>,
    eos: Option<u32>,
) -> Result<Described> {
    let (pre, merges) = match kind_of(json) {
        Ok(known) => known,
        Err(why) => return Ok(Described::Other(why)),
    };
    let tokens = tokens_of(tokenizer, json, vocabulary)?;
    let (texts, kinds) = tokens
        .into_iter()
        .enumerate()
        .map(|(id, token)| token.unwrap_or_else(|| (format!("[PAD{id}]"), kind::UNUSED)))
        .map(|(text, kind)| (Value::String(text), Value::I32(kind)))
        .unzip();
    let merges = merges.iter().map(merge_of).collect::<Result<Vec<_>>>()?;

    // What the post-processor does is seen from what it did: it has many ways of saying it.
    let sample = tokenizer
        .encode("a", true)
        .map_err(|e| anyhow!("cannot encode a letter: {e}"))?;
    let (first, last) = (sample.get_ids().first(), sample.get_ids().last());
    let adds = |end: Option<&u32>, token: Option<u32>| {
        Value::Bool(token.is_some() && end.copied() == token)
    };
    let mut metadata = vec![
        (MODEL, Value::String("gpt2".to_string())),
        (PRE_TOKENIZER, Value::String(pre.to_string())),
        (TOKENS, Value::Array(texts)),
        (TOKEN_TYPES, Value::Array(kinds)),
        (MERGES, Value::Array(merges)),
        (ADD_BOS, adds(first, bos)),
        (ADD_EOS, adds(last, eos)),
    ];
    metadata.extend(bos.map(|id| (BOS, Value::U32(id))));
    metadata.extend(eos.map(|id| (EOS, Value::U32(id))));
    let metadata = metadata.into_iter();
    Ok(Described::Metadata(
        metadata
            .map(|(key, value)| (key.to_string(), value))
            .collect(),
    ))
}

/// llama.cpp's name for how a tokenizer of a kind that is written here splits text, and its merges; of another kind, why it is not
/// written.
fn kind_of(json: &Json) -> Result<(&'static str, &[Json]), String> {
    let model = &json["model"];
    // Older files leave the type out; what has merges is BPE.
    let merges = match (model["type"].as_str(), model["merges"].as_array()) {
        (None | Some("BPE"), Some(merges)) => merges,
        (kind, _) => {
            let kind = kind.unwrap_or("unknown");
            return Err(format!("its model is {kind}, not byte-level BPE"));
        }
    };
    if !json["normalizer"].is_null() {
        return Err("it has a normalizer".to_string());
    }
    let found = without_offsets(&json["pre_tokenizer"]);
    let ignores_merges = model["ignore_merges"].as_bool() == Some(true);
    let known = pre_tokenizers()
        .into_iter()
        .find(|(name, p)| without_offsets(p) == found && ignores_merges == (*name == LLAMA3));
    match known {
        Some((pre, _)) => Ok((pre, merges.as_slice())),
        None => Err("it splits text neither as GPT-2's nor as Llama 3's".to_string()),
    }
}

/// Texts and kinds by number, of as many tokens as the model knows.
fn tokens_of(
    tokenizer: &Tokenizer,
    json: &Json,
    vocabulary: usize,
) -> Result<Vec<Option<(String, i32)>>> {
    let mut tokens: Vec<Option<(String, i32)>> = vec![None; vocabulary];
    let mut put = |id: u64, text: &str, kind: i32| -> Result<()> {
        let slot = usize::try_from(id)
            .ok()
            .and_then(|id| tokens.get_mut(id))
            .with_context(|| {
                format!(
                    "has token {id}, and the model knows {vocabulary}: they do not belong together"
                )
            })?;
        *slot = Some((text.to_string(), kind));
        Ok(())
    };
    for (text, id) in tokenizer.get_vocab(false) {
        put(id.into(), &text, kind::NORMAL)?;
    }
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        if let (Some(id), Some(text)) = (added["id"].as_u64(), added["content"].as_str()) {
            let special = added["special"].as_bool() == Some(true);
            let kind = if special {
                kind::CONTROL
            } else {
                kind::USER_DEFINED
            };
            put(id, text, kind)?;
        }
    }
    Ok(tokens)
}

/// A merge, in either of the two ways in which files have it.
fn merge_of(merge: &Json) -> Result<Value> {
    let pair = match (merge.as_str(), merge.as_array().map(Vec::as_slice)) {
        (Some(pair), _) => pair.to_string(),
        (_, Some([Json::String(left), Json::String(right)])) => format!("{left} {right}"),
        _ => bail!("`merges` holds {merge}"),
    };
    Ok(Value::String(pair))
}

/// The tokenizer that a GGUF file brings along.
///
/// # Errors
/// The file is missing, truncated or no GGUF file, or its tokenizer is missing, malformed or of a kind that is
/// not built here. The text names the file, and what to do.
pub fn load(path: &Path) -> Result<Tokenizer> {
    let name = || path.display().to_string();
    let (_, content) = open(path).with_context(name)?;
    from_metadata(&content)
        .with_context(|| {
            "its tokenizer cannot be used: put the model's tokenizer.json beside it, or give --tokenizer"
        })
        .with_context(name)
}

/// The tokenizer that the metadata describe.
///
/// # Errors
/// As [`load`]; the text does not name the file.
pub fn from_metadata(content: &Content) -> Result<Tokenizer> {
    let metadata = Metadata(content);
    let model = metadata.text(MODEL)?;
    let model = model.with_context(|| format!("has no `{MODEL}`"))?;
    ensure!(
        model == "gpt2",
        "it is of kind `{model}`, and only byte-level BPE, `gpt2`, is built from a GGUF file"
    );
    // Files written before llama.cpp had the field mean GPT-2's.
    let pre = metadata.text(PRE_TOKENIZER)?.unwrap_or(GPT2);
    let known = pre_tokenizers();
    let Some((_, pre_tokenizer)) = known.iter().find(|(name, _)| *name == pre) else {
        bail!(
            "it splits text by the rule `{pre}`, and only `{GPT2}` and `{LLAMA3}` are known here"
        );
    };
    let llama3 = pre == LLAMA3;

    let tokens = metadata.texts(TOKENS)?;
    let (vocabulary, added) = vocabulary(&tokens, &metadata.kinds(tokens.len())?);
    let merges = metadata.merges()?;
    // Around a text: what other programs put there when the file does not say.
    let before = metadata.around(ADD_BOS, llama3, BOS, &tokens)?;
    let after = metadata.around(ADD_EOS, false, EOS, &tokens)?;
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": pre_tokenizer, "post_processor": post_processor(before, after),
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            // Llama 3 takes a word that is a token as it is, before any merge.
            "ignore_merges": llama3, "vocab": vocabulary, "merges": merges,
        },
    });
    Tokenizer::from_bytes(json.to_string()).map_err(|e| anyhow!("it contradicts itself: {e}"))
}

/// What a file says of its tokenizer.
struct Metadata<'a>(&'a Content);

impl<'a> Metadata<'a> {
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.metadata.get(key)
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>> {
        self.get(key)
            .map(|v| v.to_string().map(String::as_str))
            .transpose()
            .with_context(|| format!("`{key}` is not a text"))
    }

    fn texts(&self, key: &str) -> Result<Vec<&'a str>> {
        let array = self.get(key).with_context(|| format!("has no `{key}`"))?;
        let array = array.to_vec().map_err(|_| anyhow!("`{key}` is no list"))?;
        array
            .iter()
            .map(|v| match v {
                Value::String(text) => Ok(text.as_str()),
                other => bail!("`{key}` holds {other:?}, which is not a text"),
            })
            .collect()
    }

    fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.get(key)
            .map(Value::to_bool)
            .transpose()
            .with_context(|| format!("`{key}` is neither true nor false"))
    }

    /// The kinds of so many tokens.
    fn kinds(&self, tokens: usize) -> Result<Vec<i32>> {
        let kinds = match self.get(TOKEN_TYPES) {
            None => vec![kind::NORMAL; tokens],
            Some(kinds) => kinds
                .to_vec()
                .map_err(|_| anyhow!("`{TOKEN_TYPES}` is no list"))?
                .iter()
                .map(|v| integer(v).and_then(|kind| i32::try_from(kind).ok()))
                .collect::<Option<Vec<i32>>>()
                .with_context(|| format!("`{TOKEN_TYPES}` holds what is no kind of token"))?,
        };
        ensure!(
            kinds.len() == tokens,
            "`{TOKEN_TYPES}` has {} entries, and `{TOKENS}` {tokens}",
            kinds.len()
        );
        Ok(kinds)
    }

    /// Pairs of texts.
    fn merges(&self) -> Result<Vec<Json>> {
        let merges = self.texts(MERGES)?.into_iter();
        let pair = |merge: &str| {
            let pair = merge
                .split_once(' ')
                .map(|(left, right)| json!([left, right]));
            pair.with_context(|| format!("`{MERGES}` holds {merge:?}, which is not a pair"))
        };
        merges.map(pair).collect()
    }

    /// The token that stands at one end of each text, if `flag` says so, or, where the file has no such flag, `default`.
    fn around(
        &self,
        flag: &str,
        default: bool,
        key: &str,
        tokens: &[&str],
    ) -> Result<Option<Json>> {
        let flag = self.flag(flag)?;
        if !flag.unwrap_or(default) {
            return Ok(None);
        }
        let token = self.get(key).and_then(integer);
        match token.and_then(|id| Some((id, *tokens.get(id)?))) {
            Some((id, text)) => Ok(Some(json!({"id": text, "ids": [id], "tokens": [text]}))),
            None if flag.is_none() => Ok(None),
            None => bail!("a text is to have a token around it, and `{key}` does not say which"),
        }
    }
}

/// Tokens by text, and those that are cut out of a text before the rest is split.
fn vocabulary(tokens: &[&str], kinds: &[i32]) -> (serde_json::Map<String, Json>, Vec<Json>) {
    let mut vocabulary = serde_json::Map::new();
    let mut added = Vec::new();
    for (id, (text, kind)) in tokens.iter().zip(kinds).enumerate() {
        if *kind == kind::UNUSED {
            continue;
        }
        vocabulary.insert((*text).to_string(), json!(id));
        if [kind::CONTROL, kind::USER_DEFINED].contains(kind) {
            added.push(json!({
                "id": id, "content": text, "special": *kind == kind::CONTROL,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            }));
        }
    }
    (vocabulary, added)
}

/// What puts these tokens around a text.
fn post_processor(before: Option<Json>, after: Option<Json>) -> Json {
    if before.is_none() && after.is_none() {
        return Json::Null;
    }
    let special = |token: &Option<Json>| -> Option<Json> {
        let id = &token.as_ref()?["id"];
        Some(json!({"SpecialToken": {"id": id, "type_id": 0}}))
    };
    let of_text = |name: &str| json!({"Sequence": {"id": name, "type_id": 0}});
    let single: Vec<Json> = special(&before)
        .into_iter()
        .chain([of_text("A")])
        .chain(special(&after))
        .collect();
    let specials: serde_json::Map<String, Json> = [&before, &after]
        .into_iter()
        .flatten()
        .map(|token| {
            let id = token["id"].as_str().unwrap_or_default();
            (id.to_string(), token.clone())
        })
        .collect();
    json!({
        "type": "TemplateProcessing", "single": single, "pair": [of_text("A"), of_text("B")],
        "special_tokens": specials,
    })
}
