//! Tables in Markdown, and numbers as they stand in them.

/// Rows of a table.
pub struct Table(pub String);

impl Table {
    /// A table without rows.
    pub fn new(heads: &[&str]) -> Table {
        let rule: String = heads.iter().map(|_| "---|").collect();
        Table(format!("\n| {} |\n|{rule}\n", heads.join(" | ")))
    }

    /// Adds a row, which has a cell for each head.
    pub fn row(&mut self, cells: &[String]) {
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }
}

/// A share in percent, without the sign.
pub fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

/// With a comma for each thousand.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
