//! What the program is asked for.

use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::{bail, Context as _, Result};
use candle_rocm_card_record::Part;

/// What parts and jobs want to know.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The file of the record, beside which cases that fail are written.
    pub out: PathBuf,
    /// Whether to look at less.
    pub short: bool,
    /// The GPU's number; the best one where none is given.
    pub device: Option<usize>,
    /// No job begins after so many seconds since 1970.
    pub until: Option<u64>,
    /// A fault to make, for tests.
    pub plant: Option<Plant>,
}

/// A fault that tests plant: `part/item:how`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plant {
    /// The item's part.
    pub part: Part,
    /// The item's name.
    pub item: String,
    /// What happens.
    pub how: How,
}

/// What a planted fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The process aborts.
    Abort,
    /// The job does not end.
    Hang,
    /// A bit of each result of more than so many elements is another.
    Bit(usize),
}

impl FromStr for Plant {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Plant> {
        let (place, how) = text.rsplit_once(':').context("no colon")?;
        let (part, item) = place.split_once('/').context("no slash")?;
        let how = match how.strip_prefix("bit") {
            Some(elements) => How::Bit(elements.parse()?),
            None if how == "abort" => How::Abort,
            None if how == "hang" => How::Hang,
            None => bail!("{how} is none of abort, hang, bit and a number"),
        };
        Ok(Plant {
            part: part.parse()?,
            item: item.to_owned(),
            how,
        })
    }
}

impl std::fmt::Display for Plant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}:", self.part, self.item)?;
        match self.how {
            How::Abort => f.write_str("abort"),
            How::Hang => f.write_str("hang"),
            How::Bit(elements) => write!(f, "bit{elements}"),
        }
    }
}

impl Asked {
    /// This program, told to do something else on the same GPU.
    ///
    /// # Errors
    /// The running program has no path.
    pub fn program(&self, arguments: &[&str]) -> Result<Command> {
        let program = std::env::current_exe().context("the running program has no path")?;
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(device) = self.device {
            command.args(["--device", &device.to_string()]);
        }
        Ok(command)
    }

    /// What is planted in an item.
    pub fn planted(&self, part: Part, item: &str) -> Option<How> {
        let plant = self.plant.as_ref()?;
        (plant.part == part && plant.item == item).then_some(plant.how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_fault_is_written_as_it_is_read() {
        for text in [
            "results/softmax:bit40",
            "checks/graphs:hang",
            "results/candle: exp:abort",
        ] {
            assert_eq!(text.parse::<Plant>().unwrap().to_string(), text);
        }
        for text in ["softmax:bit40", "results/softmax", "results/softmax:loud"] {
            assert!(text.parse::<Plant>().is_err(), "{text}");
        }
    }
}
