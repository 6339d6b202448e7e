//! The book, the README and what they claim: links, anchors, the list of pages, answers to questions, figures, error
//! texts, commands and the metadata of packages. Nothing here builds kernels or reaches the network.

mod answers;
mod console;
mod errors;
mod figures;
mod house;
mod links;
mod pages;
mod style;
