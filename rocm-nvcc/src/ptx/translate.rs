//! Writes C++ for the PTX of one statement.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::instruction::{self, Instruction, Item, Operand};
use super::statement::Statement;
use super::table::{self, find, Row};

/// An instruction that is not known.
#[derive(Debug, PartialEq)]
pub struct Wrong {
    /// As it was written.
    pub instruction: String,
    /// Why.
    pub reason: String,
}

/// C++ that does what the statement does, in one line without a semicolon at its end.
///
/// # Errors
/// Every instruction that is not known.
pub fn translate(statement: &Statement) -> Result<String, Vec<Wrong>> {
    let items = instruction::parse(&statement.template).map_err(|(instruction, reason)| {
        vec![Wrong {
            instruction,
            reason,
        }]
    })?;
    let mut scope = Scope::default();
    let mut code = String::from("do { ");
    code += &inputs(statement, &mut scope).map_err(|wrong| vec![wrong])?;
    let mut wrong = Vec::new();
    for item in &items {
        match scope.item(item) {
            Ok(done) => code += &done,
            Err(one) => wrong.push(one),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    Ok(code + &outputs(statement) + "} while (0)")
}

/// Variables for the operands. Inputs are read before anything is written.
fn inputs(statement: &Statement, scope: &mut Scope) -> Result<String, Wrong> {
    let mut code = String::new();
    for (number, operand) in statement.operands.iter().enumerate() {
        let kind = operand.kind.to_string();
        let Some(class) = find(table::REGISTERS, &kind) else {
            return Err(Wrong {
                instruction: operand.expression.clone(),
                reason: format!("the constraint {kind}"),
            });
        };
        let name = format!("candle_rocm_{number}");
        let constant = if operand.kind == 'n' {
            "constexpr "
        } else {
            ""
        };
        let value = match (operand.kind, operand.read) {
            ('n', _) => format!("(int64_t)({})", operand.expression),
            (_, true) => format!("candle_rocm::ptx::in<{class}>({})", operand.expression),
            (_, false) => "0".to_owned(),
        };
        let _ = write!(code, "{constant}{class} {name} = {value}; ");
        if let Some(given) = &operand.name {
            scope.declare(format!("[{given}]"), name.clone(), class);
        }
        scope.declare(number.to_string(), name, class);
    }
    Ok(code)
}

/// What instructions wrote, to the variables of the source.
fn outputs(statement: &Statement) -> String {
    let mut code = String::new();
    let operands = statement.operands.iter().enumerate();
    for (number, operand) in operands.filter(|(_, operand)| operand.written) {
        let expression = &operand.expression;
        let _ = write!(
            code,
            "candle_rocm::ptx::out({expression}, candle_rocm_{number}); "
        );
    }
    code
}

/// How many operands instructions have that take a number of them by their places.
const OPERANDS: &[(&str, usize)] = &[
    ("mov", 2),
    ("ld", 2),
    ("ldu", 2),
    ("st", 2),
    ("cvta", 2),
    ("dp4a", 4),
    ("nanosleep", 1),
    ("ldmatrix", 2),
    ("movmatrix", 2),
    ("mma", 4),
];

/// A fence, by its scope.
fn fence(opcode: &[&str]) -> Result<String, String> {
    let scopes = [
        ("cta", "__threadfence_block();"),
        ("gpu", "__threadfence();"),
        ("sys", "__threadfence_system();"),
    ];
    let fence = scopes.iter().find(|(scope, _)| opcode.contains(scope));
    match fence {
        Some((_, fence)) => Ok((*fence).to_owned()),
        None => Err("a fence of this scope is not known".to_owned()),
    }
}

/// The registers that are known at some point.
struct Scope {
    /// By name: the variable and its type. The innermost braces last.
    levels: Vec<HashMap<String, (String, &'static str)>>,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            levels: vec![HashMap::new()],
        }
    }
}

impl Scope {
    /// A piece of PTX, with a space behind it.
    fn item(&mut self, item: &Item) -> Result<String, Wrong> {
        match item {
            Item::Open => {
                self.levels.push(HashMap::new());
                Ok("{ ".to_owned())
            }
            Item::Close => {
                self.levels.pop();
                Ok("} ".to_owned())
            }
            Item::Registers(kind, names) => self.registers(kind, names),
            Item::Instruction(instruction) => {
                let done = self.guarded(instruction).map_err(|reason| Wrong {
                    instruction: instruction.text.clone(),
                    reason,
                })?;
                Ok(done + " ")
            }
        }
    }

    /// Declares registers of one type.
    fn registers(&mut self, kind: &str, names: &[String]) -> Result<String, Wrong> {
        let Some(class) = find(table::REGISTERS, kind) else {
            return Err(Wrong {
                instruction: format!(".reg .{kind}"),
                reason: "a type of register that is not known".to_owned(),
            });
        };
        let mut code = String::new();
        for name in names {
            let variable = format!(
                "candle_rocm_r_{}",
                name.replace(|c: char| !c.is_alphanumeric(), "_")
            );
            let _ = write!(code, "{class} {variable} = 0; ");
            self.declare(name.clone(), variable, class);
        }
        Ok(code)
    }

    /// An instruction behind its predicate, if it has one.
    fn guarded(&self, instruction: &Instruction) -> Result<String, String> {
        let done = self.instruction(instruction)?;
        let Some((guard, turned)) = &instruction.guard else {
            return Ok(done);
        };
        let sign = if *turned { "!" } else { "" };
        Ok(format!("if ({sign}{}) {{ {done} }}", self.variable(guard)?))
    }

    fn declare(&mut self, name: String, variable: String, class: &'static str) {
        if let Some(level) = self.levels.last_mut() {
            level.insert(name, (variable, class));
        }
    }

    fn find(&self, name: &str) -> Option<&(String, &'static str)> {
        self.levels.iter().rev().find_map(|level| level.get(name))
    }

    fn variable(&self, name: &str) -> Result<&str, String> {
        let found = self.find(name);
        found
            .map(|(variable, _)| variable.as_str())
            .ok_or_else(|| format!("the register `{name}` is not declared"))
    }

    /// An operand as a number of this C++ type.
    fn read(&self, operand: &Operand, class: &str) -> Result<String, String> {
        let special = |name: &str| {
            let value = find(table::SPECIAL, name);
            value
                .map(|value| format!("candle_rocm::ptx::as<{class}>({value})"))
                .ok_or_else(|| format!("the register `%{name}` is neither declared nor a special one that is known"))
        };
        let class = match class {
            "f16" | "f16x2" | "bf16" | "bf16x2" => &format!("candle_rocm::ptx::{class}"),
            _ => class,
        };
        match operand {
            Operand::Register(name) | Operand::Special(name) => match self.find(name) {
                Some((variable, "bool")) => Ok(variable.clone()),
                Some((variable, held)) if *held == class => Ok(variable.clone()),
                Some((variable, _)) => Ok(format!("candle_rocm::ptx::as<{class}>({variable})")),
                None => special(name),
            },
            Operand::Not(name) => Ok(format!("!{}", self.variable(name)?)),
            Operand::Integer(value) => Ok(format!("({class}){value}ll")),
            Operand::F32(bits) => Ok(format!(
                "candle_rocm::ptx::as<{class}>((uint32_t)0x{bits:x}u)"
            )),
            Operand::F64(bits) => Ok(match class {
                "float" => format!("(float)candle_rocm::bits<double>((uint64_t)0x{bits:x}ull)"),
                _ => format!("candle_rocm::ptx::as<{class}>((uint64_t)0x{bits:x}ull)"),
            }),
            Operand::Many(_) | Operand::Both(..) | Operand::Address(..) | Operand::Nothing => {
                Err("an operand of another kind was expected".to_owned())
            }
        }
    }

    /// A statement that makes a result of this expression.
    fn write(&self, operand: &Operand, value: &str) -> Result<String, String> {
        match operand {
            Operand::Register(name) | Operand::Special(name) => {
                let variable = self.variable(name)?;
                Ok(format!("candle_rocm::ptx::put({variable}, {value});"))
            }
            Operand::Nothing => Ok(format!("(void)({value});")),
            _ => Err("a register was expected for the result".to_owned()),
        }
    }

    /// The registers of a vector, or the one that stands alone.
    fn parts(operand: &Operand, count: usize) -> Result<Vec<&Operand>, String> {
        let parts: Vec<&Operand> = match operand {
            Operand::Many(parts) => parts.iter().collect(),
            other => vec![other],
        };
        match parts.len() == count {
            true => Ok(parts),
            false => Err(format!(
                "{count} registers were expected, not {}",
                parts.len()
            )),
        }
    }

    fn instruction(&self, instruction: &Instruction) -> Result<String, String> {
        let opcode: Vec<&str> = instruction.opcode.iter().map(String::as_str).collect();
        let joined = instruction.opcode.join(".");
        let begins = |begin: &str| {
            let rest = joined.strip_prefix(begin);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if table::NOTHING.iter().any(|nothing| begins(nothing)) {
            return Ok(";".to_owned());
        }
        let statement = table::STATEMENTS.iter().find(|(begin, _)| begins(begin));
        if let Some((_, statement)) = statement {
            return Ok((*statement).to_owned());
        }
        let operands = &instruction.operands;
        let count = OPERANDS.iter().find(|(name, _)| *name == opcode[0]);
        if let Some((_, count)) = count.filter(|(_, count)| *count != operands.len()) {
            return Err(format!(
                "{count} operands were expected, not {}",
                operands.len()
            ));
        }
        match opcode[0] {
            "mov" => self.mov(&opcode, &operands[0], &operands[1]),
            "ld" | "ldu" => self.load(&opcode, &operands[0], &operands[1]),
            "st" => self.store(&opcode, &operands[0], &operands[1]),
            "cvta" => self.cvta(&opcode, &operands[0], &operands[1]),
            "cvt" => self.convert(&opcode, operands),
            "setp" => self.compare(&opcode, operands),
            "dp4a" => self.dp4a(&opcode, operands),
            "atom" | "red" => self.atomic(&opcode, operands),
            "bar" | "barrier" => match (opcode.contains(&"sync"), operands.as_slice()) {
                (true, [Operand::Integer(0)]) => Ok("__syncthreads();".to_owned()),
                _ => Err("of barriers, that of the whole block (`bar.sync 0`) is known".to_owned()),
            },
            "fence" => fence(&opcode),
            "cp" => self.copy(&opcode, operands),
            "shfl" => self.shuffle(&opcode, operands),
            "vote" | "match" | "redux" | "activemask" => self.warp(&opcode, operands),
            "nanosleep" => {
                let time = self.read(&operands[0], "uint32_t")?;
                Ok(format!("__nanosleep({time});"))
            }
            "ldmatrix" => self.ldmatrix(&opcode, &operands[0], &operands[1]),
            "movmatrix" => {
                let word = self.read(&operands[1], "uint32_t")?;
                self.write(&operands[0], &format!("candle_rocm::matrix::turn({word})"))
            }
            "mma" => self.mma(&opcode, operands),
            name => self.function(name, &opcode[1..], operands),
        }
    }

    fn dp4a(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        let (a, b) = (self.class(opcode.get(1))?, self.class(opcode.get(2))?);
        let values: Result<Vec<_>, _> = operands[1..]
            .iter()
            .map(|operand| self.read(operand, "uint32_t"))
            .collect();
        // Of bytes, though the types are named as of words.
        let byte = |class: &str| {
            if class == "int32_t" {
                "int8_t"
            } else {
                "uint8_t"
            }
        };
        let value = format!(
            "candle_rocm::ptx::dp4a<{}, {}>({})",
            byte(a),
            byte(b),
            values?.join(", ")
        );
        self.write(&operands[0], &value)
    }

    fn class(&self, kind: Option<&&str>) -> Result<&'static str, String> {
        let kind = kind.ok_or("it has no type")?;
        find(table::TYPES, kind).ok_or_else(|| format!("the type .{kind} is not known"))
    }

    /// An instruction of [`table::ROWS`].
    fn function(&self, name: &str, rest: &[&str], operands: &[Operand]) -> Result<String, String> {
        let rows: Vec<&Row> = table::ROWS.iter().filter(|row| row.name == name).collect();
        if rows.is_empty() {
            return Err("the instruction is not known".to_owned());
        }
        let (kind, modifiers) = match rest.split_last() {
            Some((kind, modifiers)) => (*kind, modifiers),
            None => return Err("it has no type".to_owned()),
        };
        let class = self.class(Some(&kind))?;
        let fits = |row: &&&Row| {
            let left: Vec<&&str> = modifiers
                .iter()
                .filter(|modifier| !row.ignored.contains(modifier))
                .collect();
            left.len() == row.modifiers.len()
                && left.iter().all(|modifier| row.modifiers.contains(modifier))
        };
        let row = rows.iter().find(fits).ok_or_else(|| {
            format!(
                "the instruction is known, but not with `.{}`",
                modifiers.join(".")
            )
        })?;
        let types = row.types;
        if operands.len() != types.len() {
            return Err(format!(
                "{} operands were expected, not {}",
                types.len(),
                operands.len()
            ));
        }
        let double = match class {
            "uint16_t" => "uint32_t",
            "int16_t" => "int32_t",
            "uint32_t" => "uint64_t",
            "int32_t" => "int64_t",
            _ => class,
        };
        let of = |named: &str| match named {
            "T" => Ok(class),
            "D" => Ok(double),
            other => self.class(Some(&other)),
        };
        let mut arguments = Vec::new();
        for (operand, named) in operands[1..].iter().zip(&types[1..]) {
            arguments.push(self.read(operand, of(named)?)?);
        }
        let template = match (row.typed, class) {
            (false, _) => String::new(),
            (true, "f16" | "f16x2" | "bf16" | "bf16x2") => format!("<candle_rocm::ptx::{class}>"),
            (true, class) => format!("<{class}>"),
        };
        let value = format!(
            "candle_rocm::ptx::{}{template}({})",
            row.function,
            arguments.join(", ")
        );
        // What is computed as int keeps its width.
        self.write(&operands[0], &self.cast(of(types[0])?, &value))
    }

    /// `value` in the type that a result has.
    fn cast(&self, class: &str, value: &str) -> String {
        match class {
            "f16" | "f16x2" | "bf16" | "bf16x2" | "bool" => value.to_owned(),
            class => format!("({class})({value})"),
        }
    }

    fn mov(&self, opcode: &[&str], to: &Operand, from: &Operand) -> Result<String, String> {
        let class = self.class(opcode.last())?;
        let half = |count: usize| match (class, count) {
            ("uint32_t" | "int32_t", 2) => Ok("uint16_t"),
            ("uint64_t" | "int64_t", 2) => Ok("uint32_t"),
            ("uint32_t" | "int32_t", 4) => Ok("uint8_t"),
            ("uint64_t" | "int64_t", 4) => Ok("uint16_t"),
            _ => Err(format!("{count} registers do not make one of this type")),
        };
        let bits = |part: &str| match part {
            "uint8_t" => 8,
            "uint16_t" => 16,
            _ => 32,
        };
        match (to, from) {
            (to, Operand::Many(parts)) => {
                let part = half(parts.len())?;
                let mut words = Vec::new();
                for (at, operand) in parts.iter().enumerate() {
                    let word = self.read(operand, part)?;
                    words.push(format!("((uint64_t){word} << {})", at * bits(part)));
                }
                self.write(to, &format!("({class})({})", words.join(" | ")))
            }
            (Operand::Many(parts), from) => {
                let part = half(parts.len())?;
                let whole = self.read(from, class)?;
                // The source may be one of the results.
                let mut code = format!("{{ const uint64_t whole = (uint64_t)({whole}); ");
                for (at, operand) in parts.iter().enumerate() {
                    let value = format!("({part})(whole >> {})", at * bits(part));
                    code += &self.write(operand, &value)?;
                    code.push(' ');
                }
                Ok(code + "}")
            }
            (to, from) => self.write(to, &self.read(from, class)?),
        }
    }

    /// A pointer to `class` in C++.
    fn pointer(&self, opcode: &[&str], address: &Operand, class: &str) -> Result<String, String> {
        let Operand::Address(base, offset) = address else {
            return Err("an address in brackets was expected".to_owned());
        };
        let base = self.read(base, "uint64_t")?;
        let space = if opcode.iter().any(|part| part.starts_with("shared")) {
            "shared"
        } else if opcode.contains(&"param") || opcode.contains(&"local") {
            return Err("of address spaces, global, shared and const are known".to_owned());
        } else {
            "global"
        };
        Ok(format!(
            "candle_rocm::ptx::{space}<{class}>({base} + ({offset}))"
        ))
    }

    /// How many numbers of which type a load or store moves, and its fences.
    fn access(&self, opcode: &[&str]) -> Result<(usize, &'static str, &'static str), String> {
        let class = self.class(opcode.last())?;
        let count = if opcode.contains(&"v2") {
            2
        } else if opcode.contains(&"v4") {
            4
        } else {
            1
        };
        let fence = if opcode.contains(&"acquire") || opcode.contains(&"release") {
            match opcode {
                parts if parts.contains(&"cta") => "__threadfence_block();",
                parts if parts.contains(&"sys") => "__threadfence_system();",
                _ => "__threadfence();",
            }
        } else {
            ""
        };
        Ok((count, class, fence))
    }

    fn load(&self, opcode: &[&str], to: &Operand, from: &Operand) -> Result<String, String> {
        let (count, class, fence) = self.access(opcode)?;
        let parts = Self::parts(to, count)?;
        let class = match class {
            "f16" | "bf16" => "uint16_t",
            "f16x2" | "bf16x2" => "uint32_t",
            other => other,
        };
        let volatile = ["volatile", "acquire", "relaxed"]
            .iter()
            .any(|order| opcode.contains(order));
        if count == 1 {
            let qualified = match volatile {
                true => format!("const volatile {class}"),
                false => format!("const {class}"),
            };
            let value = format!("({class})*{}", self.pointer(opcode, from, &qualified)?);
            return Ok(format!("{} {fence}", self.write(parts[0], &value)?));
        }
        let many = format!("candle_rocm::ptx::Many<{class}, {count}>");
        let pointer = self.pointer(opcode, from, &format!("const {many}"))?;
        let mut code = format!("{{ const {many} many = *{pointer}; ");
        for (at, part) in parts.iter().enumerate() {
            code += &self.write(part, &format!("many[{at}]"))?;
            code.push(' ');
        }
        Ok(code + fence + "}")
    }

    fn store(&self, opcode: &[&str], to: &Operand, from: &Operand) -> Result<String, String> {
        let (count, class, fence) = self.access(opcode)?;
        let class = match class {
            "f16" | "bf16" => "uint16_t",
            "f16x2" | "bf16x2" => "uint32_t",
            other => other,
        };
        let mut values = Vec::new();
        for part in Self::parts(from, count)? {
            values.push(self.read(part, class)?);
        }
        if count == 1 {
            let volatile = ["volatile", "release", "relaxed"]
                .iter()
                .any(|order| opcode.contains(order));
            let qualified = match volatile {
                true => format!("volatile {class}"),
                false => class.to_owned(),
            };
            let pointer = self.pointer(opcode, to, &qualified)?;
            return Ok(format!("{fence} *{pointer} = {};", values[0]));
        }
        let many = format!("candle_rocm::ptx::Many<{class}, {count}>");
        let pointer = self.pointer(opcode, to, &many)?;
        Ok(format!(
            "{fence} *{pointer} = {many}{{{}}};",
            values.join(", ")
        ))
    }

    fn cvta(&self, opcode: &[&str], to: &Operand, from: &Operand) -> Result<String, String> {
        let shared = opcode.iter().any(|part| part.starts_with("shared"));
        let value = self.read(from, "uint64_t")?;
        let value = match (shared, opcode.contains(&"to")) {
            (true, true) => format!("(uint64_t)candle_rocm::lds_address((const void *){value})"),
            (true, false) => format!("(uint64_t)__cvta_shared_to_generic({value})"),
            // Global memory has the addresses that all pointers have.
            (false, _) => value,
        };
        self.write(to, &value)
    }

    fn convert(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        const ROUNDS: &[(&str, (&str, bool))] = &[
            ("rn", ("NEAREST", false)),
            ("rna", ("NEAREST", false)),
            ("rz", ("ZERO", false)),
            ("rm", ("BELOW", false)),
            ("rp", ("ABOVE", false)),
            ("rni", ("NEAREST", true)),
            ("rzi", ("ZERO", true)),
            ("rmi", ("BELOW", true)),
            ("rpi", ("ABOVE", true)),
        ];
        let [_, modifiers @ .., to, from] = opcode else {
            return Err("it has no types".to_owned());
        };
        let (mut round, mut integral, mut saturated, mut relu) = ("NEAREST", false, false, false);
        for modifier in modifiers {
            match (find(ROUNDS, modifier), *modifier) {
                (Some(found), _) => (round, integral) = found,
                (None, "sat") => saturated = true,
                (None, "relu") => relu = true,
                (None, "ftz" | "satfinite") => {}
                (None, other) => return Err(format!("`cvt` is known, but not with `.{other}`")),
            }
        }
        let round = format!("candle_rocm::ptx::Round::{round}");
        if let ("f16x2" | "bf16x2", "f32", [result, high, low]) = (*to, *from, operands) {
            let class = to.trim_end_matches("x2");
            let value = format!(
                "candle_rocm::ptx::cvt_pair<candle_rocm::ptx::{class}>({}, {}, {round}, {relu})",
                self.read(high, "float")?,
                self.read(low, "float")?
            );
            return self.write(result, &value);
        }
        let [result, operand] = operands else {
            return Err("this form of `cvt` is not known".to_owned());
        };
        if *to == "tf32" {
            let value = self.read(operand, "float")?;
            return self.write(result, &format!("candle_rocm::ptx::cvt_tf32({value})"));
        }
        if relu || to.ends_with("x2") || from.ends_with("x2") {
            return Err("this form of `cvt` is not known".to_owned());
        }
        let scoped = |class: &'static str| match class {
            "f16" | "bf16" => format!("candle_rocm::ptx::{class}"),
            class => class.to_owned(),
        };
        let (to, from) = (self.class(Some(to))?, self.class(Some(from))?);
        let value = format!(
            "candle_rocm::ptx::cvt<{}, {}>({}, {round}, {integral}, {saturated})",
            scoped(to),
            scoped(from),
            self.read(operand, from)?
        );
        self.write(result, &value)
    }

    fn compare(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        const COMPARISONS: &[&str] = &[
            "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu",
            "gtu", "geu", "num", "nan",
        ];
        let Some(comparison) = opcode.get(1).filter(|name| COMPARISONS.contains(name)) else {
            return Err("the comparison is not known".to_owned());
        };
        let class = self.class(opcode.last())?;
        let operation = opcode[2..opcode.len() - 1]
            .iter()
            .find(|part| ["and", "or", "xor"].contains(part));
        let [result, a, b, rest @ ..] = operands else {
            return Err("three operands were expected".to_owned());
        };
        let scoped = match class {
            "f16" | "bf16" => format!("candle_rocm::ptx::{class}"),
            class => class.to_owned(),
        };
        let found = format!(
            "candle_rocm::ptx::set_{comparison}<{scoped}>({}, {})",
            self.read(a, class)?,
            self.read(b, class)?
        );
        let with = |found: &str| match (operation, rest) {
            (None, []) => Ok(found.to_owned()),
            (Some(operation), [other]) => {
                let sign = match *operation {
                    "and" => "&&",
                    "or" => "||",
                    _ => "!=",
                };
                Ok(format!(
                    "(({found}) {sign} ({}))",
                    self.read(other, "bool")?
                ))
            }
            _ => Err("this form of `setp` is not known".to_owned()),
        };
        match result {
            Operand::Both(first, second) => {
                let (yes, no) = (with("found")?, with("!found")?);
                Ok(format!(
                    "{{ const bool found = {found}; {} {} }}",
                    self.write(first, &yes)?,
                    self.write(second, &no)?
                ))
            }
            result => self.write(result, &with(&found)?),
        }
    }

    fn atomic(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        let kind = opcode.last().copied().unwrap_or_default();
        let class = find(table::ATOMIC_TYPES, kind)
            .ok_or_else(|| format!("atomics of the type .{kind} are not known"))?;
        let known = table::ATOMICS
            .iter()
            .find(|(operation, ..)| opcode[1..].contains(operation));
        let Some((_, function, count)) = known else {
            return Err("the atomic operation is not known".to_owned());
        };
        let (result, operands) = match (opcode[0], operands) {
            ("atom", [result, rest @ ..]) => (result, rest),
            (_, rest) => (&Operand::Nothing, rest),
        };
        let [address, values @ ..] = operands else {
            return Err("an address was expected".to_owned());
        };
        if values.len() != *count {
            return Err(format!(
                "{count} values were expected, not {}",
                values.len()
            ));
        }
        let mut arguments = vec![format!(
            "({class} *){}",
            self.pointer(opcode, address, class)?
        )];
        for value in values {
            arguments.push(self.read(value, class)?);
        }
        let ordered = ["acquire", "release", "acq_rel"]
            .iter()
            .any(|order| opcode.contains(order));
        let fence = if ordered { "__threadfence();" } else { "" };
        let value = format!("{function}({})", arguments.join(", "));
        // The registers know unsigned words of their own names.
        let word = match class {
            "unsigned long long" => "(uint64_t)",
            "long long" => "(int64_t)",
            _ => "",
        };
        Ok(format!(
            "{fence} {} {fence}",
            self.write(result, &format!("{word}{value}"))?
        ))
    }

    fn copy(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        if opcode.get(1) != Some(&"async")
            || opcode.contains(&"bulk")
            || opcode.contains(&"mbarrier")
        {
            return Err("of copies, `cp.async` without barriers is known".to_owned());
        }
        let [Operand::Address(to, to_offset), Operand::Address(from, from_offset), size, rest @ ..] =
            operands
        else {
            return Err("two addresses and a size were expected".to_owned());
        };
        // A constant of the source is one for the template, too.
        let size = match size {
            Operand::Integer(bytes) => bytes.to_string(),
            Operand::Register(name) => self.variable(name)?.to_owned(),
            _ => return Err("the size is no constant".to_owned()),
        };
        let (to, from) = (self.read(to, "uint32_t")?, self.read(from, "uint64_t")?);
        let have = match rest {
            [] => String::new(),
            [have] => format!(", {}", self.read(have, "uint32_t")?),
            _ => return Err("this form of `cp.async` is not known".to_owned()),
        };
        Ok(format!(
            "candle_rocm::ptx::copy<(int)({size})>({to} + ({to_offset}), {from} + ({from_offset}){have});"
        ))
    }

    fn shuffle(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        let modes = ["up", "down", "bfly", "idx"];
        let Some(mode) = opcode.iter().find(|part| modes.contains(part)) else {
            return Err("the kind of shuffle is not known".to_owned());
        };
        let [result, a, b, c, ..] = operands else {
            return Err("four operands were expected".to_owned());
        };
        let call = format!(
            "candle_rocm::ptx::shfl(candle_rocm::ptx::Shuffle::{}, {}, {}, {}, within)",
            mode.to_uppercase(),
            self.read(a, "uint32_t")?,
            self.read(b, "uint32_t")?,
            self.read(c, "uint32_t")?
        );
        let writes = match result {
            Operand::Both(value, within) => format!(
                "{} {}",
                self.write(value, "moved")?,
                self.write(within, "within")?
            ),
            value => self.write(value, "moved")?,
        };
        Ok(format!(
            "{{ bool within; const uint32_t moved = {call}; {writes} }}"
        ))
    }

    fn warp(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        match (opcode, operands) {
            (["activemask", "b32"], [result]) => self.write(result, "__activemask()"),
            (["vote", "sync", kind, _], [result, predicate, mask])
                if ["all", "any", "uni", "ballot"].contains(kind) =>
            {
                let call = format!(
                    "__{kind}_sync({}, {})",
                    self.read(mask, "uint32_t")?,
                    self.read(predicate, "bool")?
                );
                let value = match *kind {
                    "ballot" => format!("(uint32_t){call}"),
                    _ => format!("({call} != 0)"),
                };
                self.write(result, &value)
            }
            (["match", "any", "sync", _], [result, value, mask]) => {
                let class = self.class(opcode.last())?;
                let call = format!(
                    "__match_any_sync({}, {})",
                    self.read(mask, "uint32_t")?,
                    self.read(value, class)?
                );
                self.write(result, &format!("(uint32_t){call}"))
            }
            (["redux", "sync", operation, kind], [result, value, mask])
                if ["add", "min", "max", "and", "or", "xor"].contains(operation) =>
            {
                let class = find(table::ATOMIC_TYPES, kind)
                    .filter(|class| ["int", "unsigned int"].contains(class))
                    .ok_or("of reductions, those of 32-bit integers are known")?;
                let call = format!(
                    "__reduce_{operation}_sync({}, ({class}){})",
                    self.read(mask, "uint32_t")?,
                    self.read(value, "uint32_t")?
                );
                self.write(result, &format!("(uint32_t){call}"))
            }
            _ => Err("this form of the instruction is not known".to_owned()),
        }
    }

    fn ldmatrix(&self, opcode: &[&str], to: &Operand, from: &Operand) -> Result<String, String> {
        let counts = [("x1", 1), ("x2", 2), ("x4", 4)];
        let count = opcode.iter().find_map(|part| find(&counts, part));
        let (Some(count), true, true) = (count, opcode.contains(&"m8n8"), opcode.contains(&"b16"))
        else {
            return Err("of matrices, those of 8 x 8 elements of 16 bits are known".to_owned());
        };
        let Operand::Address(base, offset) = from else {
            return Err("an address in brackets was expected".to_owned());
        };
        let turned = opcode.contains(&"trans");
        let mut code = format!(
            "{{ uint32_t loaded[{count}]; candle_rocm::matrix::load<{count}, {turned}>(loaded, {} + ({offset})); ",
            self.read(base, "uint32_t")?
        );
        for (at, part) in Self::parts(to, count)?.into_iter().enumerate() {
            code += &self.write(part, &format!("loaded[{at}]"))?;
            code.push(' ');
        }
        Ok(code + "}")
    }

    fn mma(&self, opcode: &[&str], operands: &[Operand]) -> Result<String, String> {
        let unknown =
            || "a product of matrices of this shape or these types is not known".to_owned();
        let (["mma", "sync", "aligned", shape, "row", "col", types @ ..], [d, a, b, c]) =
            (opcode, operands)
        else {
            return Err(unknown());
        };
        let &[to, left, right, from] = types else {
            return Err(unknown());
        };
        let kind = table::MATRIX_KINDS
            .iter()
            .find(|((a, b), ..)| (*a, *b) == (left, right));
        let (_, kind, each) = kind.ok_or_else(unknown)?;
        let numbers: Vec<usize> = shape
            .split(['m', 'n', 'k'])
            .filter_map(|number| number.parse().ok())
            .collect();
        let &[m, 8, k] = numbers.as_slice() else {
            return Err(unknown());
        };
        let (rows, depth) = (m / 8, k / (4 * each));
        if ![8, 16].contains(&m) || ![1, 2].contains(&depth) || k != depth * 4 * each {
            return Err(unknown());
        }
        // The last half of the depth of A comes after the first for all rows.
        let (sums, class, function) = match (to, from) {
            ("f32", "f32") => (2 * rows, "float", "multiply"),
            ("s32", "s32") => (2 * rows, "int32_t", "multiply"),
            ("f16", "f16") => (rows, "uint32_t", "multiply_f16"),
            _ => return Err(unknown()),
        };
        let list = |operand: &Operand, count: usize, class: &str| -> Result<String, String> {
            let parts = Self::parts(operand, count)?;
            let parts: Result<Vec<_>, _> = parts
                .into_iter()
                .map(|part| self.read(part, class))
                .collect();
            Ok(parts?.join(", "))
        };
        let mut code = format!(
            "{{ {class} sums[] = {{{}}}; const uint32_t left[] = {{{}}}, right[] = {{{}}}; \
             candle_rocm::matrix::{function}<candle_rocm::matrix::{kind}, {rows}, {depth}>(sums, left, right); ",
            list(c, sums, class)?,
            list(a, rows * depth, "uint32_t")?,
            list(b, depth, "uint32_t")?
        );
        for (at, part) in Self::parts(d, sums)?.into_iter().enumerate() {
            code += &self.write(part, &format!("sums[{at}]"))?;
            code.push(' ');
        }
        Ok(code + "}")
    }
}
