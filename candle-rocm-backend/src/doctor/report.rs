//! What was found, a line each.

use std::fmt;

use candle_rocm_runtime::RuntimeKind;
use serde_json::{json, Value};

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// As it should be.
    Good,
    /// Not needed, or no more than slower or less convenient.
    Note,
    /// The chosen runtime cannot work.
    Wrong,
}

impl State {
    /// The word for it in JSON.
    fn word(self) -> &'static str {
        match self {
            State::Good => "ok",
            State::Note => "note",
            State::Wrong => "wrong",
        }
    }
}

/// One line of a [`Report`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at, in a word.
    pub subject: &'static str,
    /// How it stands.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do; empty where nothing need be done.
    pub advice: String,
}

impl Finding {
    pub(super) fn good(subject: &'static str, found: impl Into<String>) -> Self {
        Self::new(subject, State::Good, found, "")
    }

    pub(super) fn note(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(subject, State::Note, found, advice)
    }

    pub(super) fn wrong(
        subject: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(subject, State::Wrong, found, advice)
    }

    fn new(
        subject: &'static str,
        state: State,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            subject,
            state,
            found: found.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Good => "ok",
            State::Note => "note",
            State::Wrong => "WRONG",
        };
        // One line, whatever an error's text is made of.
        let line = |text: &str| {
            text.split('\n')
                .map(str::trim)
                .collect::<Vec<_>>()
                .join("; ")
        };
        write!(f, "{state:<6}{:<12}{}", self.subject, line(&self.found))?;
        if !self.advice.is_empty() {
            write!(f, " -- {}", line(&self.advice))?;
        }
        Ok(())
    }
}

/// What was found, in the order in which things build on each other: the first that is wrong is the one to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The runtime that the program uses; none if `CANDLE_ROCM_RUNTIME` names no runtime.
    pub runtime: Option<RuntimeKind>,
    /// What was looked at.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether all is there that the chosen runtime needs.
    pub fn is_healthy(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.state < State::Wrong)
    }
}

impl Report {
    /// The report as JSON, for programs: `runtime`, `healthy`, and `findings` with `subject`, `state` (`ok`, `note` or
    /// `wrong`), `found` and `advice`.
    pub fn to_json(&self) -> String {
        let finding = |finding: &Finding| {
            json!({
                "subject": finding.subject,
                "state": finding.state.word(),
                "found": finding.found,
                "advice": finding.advice,
            })
        };
        let findings: Vec<Value> = self.findings.iter().map(finding).collect();
        let report = json!({
            "runtime": self.runtime.map(|runtime| runtime.to_string()),
            "healthy": self.is_healthy(),
            "findings": findings,
        });
        format!("{report:#}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.findings.iter().map(Finding::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
