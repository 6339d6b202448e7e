//! Whether everything is right on a GPU, and how fast it is.
//!
//! A [`job::Job`] looks at one thing and gives one item of the record. Each part is a list of jobs: [`facts`],
//! [`results`], [`checks`], [`roofline`], [`speeds`]. A part runs in a process of its own ([`child`]), which another
//! watches ([`supervise`]), so that a GPU's fault ends one job and no more.

pub mod asked;
pub mod checks;
pub mod child;
pub mod facts;
pub mod gpu;
pub mod job;
pub mod measure;
pub mod results;
pub mod roofline;
pub mod speeds;
pub mod supervise;
