//! The JSON file.
//!
//! A [`Record`] has a list of [`Item`]s for each [`Part`]. Each item has a line for people, and numbers for programs in
//! [`Item::data`], whose fields are those that the part's documentation names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::{bail, ensure, Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the file's form. It grows when a field's meaning changes or a field goes, not when one is added.
pub const SCHEMA: u32 = 1;

/// What is looked at, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The card and the machine. `data` of `card`: `name`, `arch`, `compute_units`, `wavefront`, `memory` (bytes),
    /// `runtime`, `library`, `release`; of others the files of the system that were read, by name.
    Facts,
    /// Results beside those recorded from the emulator, an item for each operator. `data`: `cases`, `equal` (bit for bit),
    /// `near` (other bits, within the tolerance), `wrong`, `refused`, `unheld` (nothing to compare with), `largest`
    /// (difference in shares of the tolerance), `recorded` (the architecture that was recorded, or null), `smallest` (the
    /// smallest case that failed: `case`, `what`, `file`).
    Results,
    /// Graphs, events, streams, memory, threads, processes. `data`: numbers of the check, by name.
    Checks,
    /// What the card can do. `data`: `value` and `unit`; `predicted` in the same unit, where there is a prediction.
    Roofline,
    /// Operators, products, attention, models. `data`: `value` and `unit`; `us`; `gb_s` or `tflop_s`; `share` (of the
    /// roofline's copy); `predicted` in the unit, where there is a prediction.
    Speeds,
}

impl Part {
    /// All, in order.
    pub const ALL: [Part; 5] = [
        Part::Facts,
        Part::Results,
        Part::Checks,
        Part::Roofline,
        Part::Speeds,
    ];

    /// As it is in JSON and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Part::Facts => "facts",
            Part::Results => "results",
            Part::Checks => "checks",
            Part::Roofline => "roofline",
            Part::Speeds => "speeds",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Part> {
        match Part::ALL.into_iter().find(|part| part.name() == text) {
            Some(part) => Ok(part),
            None => bail!("there is no part {text:?}: facts, results, checks, roofline, speeds"),
        }
    }
}

/// How an item stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be, or a figure.
    Ok,
    /// Not there, or no more than slower.
    Note,
    /// Wrong.
    Wrong,
    /// The process ended while it looked at this.
    Fault,
    /// The process did not end in time while it looked at this.
    Hang,
}

impl State {
    /// That of a check.
    pub fn of_check(holds: bool) -> State {
        match holds {
            true => State::Ok,
            false => State::Wrong,
        }
    }

    /// Whether somebody should look at it.
    pub fn is_bad(self) -> bool {
        self >= State::Wrong
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Note => "note",
            State::Wrong => "WRONG",
            State::Fault => "FAULT",
            State::Hang => "HANG",
        }
    }
}

/// What was found of one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Its name, unique in its part.
    pub name: String,
    /// How it stands.
    pub state: State,
    /// What was found, in a line.
    pub line: String,
    /// The same for programs; [`Part`] says what is in it.
    #[serde(default)]
    pub data: Map<String, Value>,
    /// How long it took, with what had to be made ready.
    #[serde(default)]
    pub seconds: f64,
}

impl Item {
    /// An item without data.
    pub fn new(name: impl Into<String>, state: State, line: impl Into<String>) -> Item {
        Item {
            name: name.into(),
            state,
            line: line.into(),
            data: Map::new(),
            seconds: 0.,
        }
    }

    /// With a field of [`Item::data`].
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Item {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// A number of [`Item::data`].
    pub fn number(&self, key: &str) -> Option<f64> {
        self.data.get(key)?.as_f64()
    }

    /// A text of [`Item::data`].
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key)?.as_str()
    }
}

/// What was found on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// That program's version.
    pub version: String,
    /// When it began, in seconds since 1970, UTC.
    pub began: u64,
    /// Whether the GPU is emulated, so that times say nothing of a card.
    pub emulated: bool,
    /// Whether it was asked to look at less.
    pub short: bool,
    /// Of each part what was found, in order.
    pub parts: BTreeMap<Part, Vec<Item>>,
}

impl Record {
    /// One without items.
    pub fn new(version: &str, began: u64, short: bool) -> Record {
        Record {
            schema: SCHEMA,
            version: version.to_owned(),
            began,
            emulated: false,
            short,
            parts: BTreeMap::new(),
        }
    }

    /// The items of a part.
    pub fn part(&self, part: Part) -> &[Item] {
        self.parts.get(&part).map_or(&[], Vec::as_slice)
    }

    /// An item of a part.
    pub fn item(&self, part: Part, name: &str) -> Option<&Item> {
        self.part(part).iter().find(|item| item.name == name)
    }

    /// All items, with their parts.
    pub fn items(&self) -> impl Iterator<Item = (Part, &Item)> {
        let parts = self.parts.iter();
        parts.flat_map(|(part, items)| items.iter().map(move |item| (*part, item)))
    }

    /// Whether nothing was found wrong.
    pub fn is_right(&self) -> bool {
        self.items().all(|(_, item)| !item.state.is_bad())
    }

    /// The card's name and architecture, as far as they are known.
    pub fn title(&self) -> String {
        let card = self.item(Part::Facts, "card");
        let of = |key| card.and_then(|card| card.text(key)).unwrap_or("?");
        let emulated = if self.emulated { ", emulated" } else { "" };
        format!("{} ({}{emulated})", of("name"), of("arch"))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is no such file, or a newer program wrote it in another form.
    pub fn load(path: &Path) -> Result<Record> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {shown}"))?;
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{shown}"))?;
        let schema = value.get("schema").and_then(Value::as_u64);
        let schema = schema.with_context(|| format!("{shown} is no file of candle-rocm-card"))?;
        ensure!(
            schema == u64::from(SCHEMA),
            "{shown} has form {schema}, and this program reads {SCHEMA}: use the program that wrote it"
        );
        serde_json::from_value(value).with_context(|| format!("{shown}"))
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let text = format!("{:#}\n", serde_json::to_value(self)?);
        let beside = path.with_extension("json.new");
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
        written.with_context(|| format!("writing {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let mut record = Record::new("0.1.0", 1, true);
        let item = Item::new("copy", State::Ok, "4000 GB/s").with("value", 4000.);
        record.parts.insert(Part::Roofline, vec![item]);
        let path = std::env::temp_dir().join(format!("card-record-{}.json", std::process::id()));
        record.save(&path).unwrap();
        let read = Record::load(&path);
        std::fs::write(&path, "{\"schema\": 99}").unwrap();
        let newer = Record::load(&path).unwrap_err().to_string();
        std::fs::write(&path, "{}").unwrap();
        let other = Record::load(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.unwrap(), record);
        assert!(newer.contains("has form 99"), "{newer}");
        assert!(other.contains("is no file of"), "{other}");
    }

    #[test]
    fn parts_have_the_names_that_json_has() {
        for part in Part::ALL {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
            assert_eq!(part.name().parse::<Part>().unwrap(), part);
        }
    }
}
