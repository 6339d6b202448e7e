//! The 16-bit immediates of SOPP and SOPK, which are bit fields with names of their own.

use std::fmt::Write;

use super::super::table::{ImmediateStyle, Table};
use super::super::{Family, Target};

/// The immediate's text; empty if it is not shown.
pub(super) fn text(target: Target, table: &Table, style: ImmediateStyle, value: i32) -> String {
    let bits = value as u32 & 0xffff;
    match style {
        ImmediateStyle::Hex => format!("0x{bits:x}"),
        ImmediateStyle::Mixed if bits <= 64 => bits.to_string(),
        ImmediateStyle::Mixed => format!("0x{bits:x}"),
        ImmediateStyle::Branch => bits.to_string(),
        ImmediateStyle::DecimalOrNone if bits == 0 => String::new(),
        ImmediateStyle::DecimalOrNone => bits.to_string(),
        ImmediateStyle::HwReg => hardware_register(table, bits),
        ImmediateStyle::SendMessage => message(target, table, bits),
        ImmediateStyle::WaitCount => wait_count(target, bits),
        ImmediateStyle::DelayAlu => delay_alu(bits),
        ImmediateStyle::DependencyCounters => dependency_counters(bits),
        ImmediateStyle::GprIndexMode => gpr_index_mode(bits),
        ImmediateStyle::Version => version(bits),
    }
}

fn hardware_register(table: &Table, bits: u32) -> String {
    let (id, offset, width) = (bits & 63, bits >> 6 & 31, (bits >> 11 & 31) + 1);
    let known = table.hardware_registers.get(&(id as u16));
    match known {
        Some(name) if offset == 0 && width == 32 => format!("hwreg({name})"),
        Some(name) => format!("hwreg({name}, {offset}, {width})"),
        None if offset == 0 && width == 32 => format!("hwreg({id})"),
        None => format!("hwreg({id}, {offset}, {width})"),
    }
}

fn message(target: Target, table: &Table, bits: u32) -> String {
    let wide = matches!(target.family(), Family::Rdna3 | Family::Rdna4);
    let key = bits & if wide { 0xff } else { 0x3ff };
    if let Some(name) = table.messages.get(&(key as u16)) {
        return format!("sendmsg({})", name.replace(',', ", "));
    }
    // Without a name: message, operation and stream where these fields hold the whole number.
    if wide {
        return if bits <= 0xff {
            format!("sendmsg({bits}, 0, 0)")
        } else {
            bits.to_string()
        };
    }
    let (id, operation, stream) = (bits & 15, bits >> 4 & 7, bits >> 8 & 3);
    if id | operation << 4 | stream << 8 == bits {
        format!("sendmsg({id}, {operation}, {stream})")
    } else {
        bits.to_string()
    }
}

/// Counters that are at their maximum are not waited for, and not shown.
fn wait_count(target: Target, bits: u32) -> String {
    let field = |first: u32, width: u32| bits >> first & ((1 << width) - 1);
    let (vector, export, scalar) = match target.family() {
        Family::Cdna => (
            (field(0, 4) | field(14, 2) << 4, 63),
            field(4, 3),
            (field(8, 4), 15),
        ),
        Family::Rdna2 => (
            (field(0, 4) | field(14, 2) << 4, 63),
            field(4, 3),
            (field(8, 6), 63),
        ),
        Family::Rdna3 | Family::Rdna4 => ((field(10, 6), 63), field(0, 3), (field(4, 6), 63)),
    };
    let counters = [
        ("vmcnt", vector.0, vector.1),
        ("expcnt", export, 7),
        ("lgkmcnt", scalar.0, scalar.1),
    ];
    let all = counters.iter().all(|counter| counter.1 == counter.2);
    let shown: Vec<String> = counters
        .iter()
        .filter(|counter| counter.1 != counter.2 || all)
        .map(|counter| format!("{}({})", counter.0, counter.1))
        .collect();
    shown.join(" ")
}

fn delay_alu(bits: u32) -> String {
    const DELAYS: [&str; 12] = [
        "NO_DEP",
        "VALU_DEP_1",
        "VALU_DEP_2",
        "VALU_DEP_3",
        "VALU_DEP_4",
        "TRANS32_DEP_1",
        "TRANS32_DEP_2",
        "TRANS32_DEP_3",
        "FMA_ACCUM_CYCLE_1",
        "SALU_CYCLE_1",
        "SALU_CYCLE_2",
        "SALU_CYCLE_3",
    ];
    const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];
    let name = |value: u32| {
        DELAYS
            .get(value as usize)
            .copied()
            .unwrap_or("/* invalid instid value */")
    };
    let (first, skip, second) = (bits & 15, bits >> 4 & 7, bits >> 7 & 15);
    let mut parts = Vec::new();
    if first != 0 {
        parts.push(format!("instid0({})", name(first)));
    }
    if skip != 0 {
        let skip = SKIPS
            .get(skip as usize)
            .copied()
            .unwrap_or("/* invalid instskip value */");
        parts.push(format!("instskip({skip})"));
    }
    if second != 0 {
        parts.push(format!("instid1({})", name(second)));
    }
    if parts.is_empty() {
        "0".into()
    } else {
        parts.join(" | ")
    }
}

fn dependency_counters(bits: u32) -> String {
    // Name, first bit, width; all bits set is the default of each.
    const COUNTERS: [(&str, u32, u32); 7] = [
        ("depctr_hold_cnt", 7, 1),
        ("depctr_sa_sdst", 0, 1),
        ("depctr_va_vdst", 12, 4),
        ("depctr_va_sdst", 9, 3),
        ("depctr_va_ssrc", 8, 1),
        ("depctr_va_vcc", 1, 1),
        ("depctr_vm_vsrc", 2, 3),
    ];
    let used = COUNTERS.iter().fold(0, |mask, (_, first, width)| {
        mask | ((1 << width) - 1) << first
    });
    if bits & !used != 0 {
        return format!("0x{bits:x}");
    }
    let values = COUNTERS.map(|(name, first, width)| {
        let maximum = (1 << width) - 1;
        (name, bits >> first & maximum, maximum)
    });
    let all = values.iter().all(|row| row.1 == row.2);
    let mut text = String::new();
    for (name, value, _) in values.iter().filter(|row| row.1 != row.2 || all) {
        let _ = write!(text, " {name}({value})");
    }
    text.trim_start().into()
}

fn gpr_index_mode(bits: u32) -> String {
    if bits > 15 {
        return format!("0x{bits:x}");
    }
    let names: Vec<&str> = ["SRC0", "SRC1", "SRC2", "DST"]
        .into_iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 != 0)
        .map(|(_, name)| name)
        .collect();
    format!("gpr_idx({})", names.join(","))
}

fn version(bits: u32) -> String {
    const VERSIONS: [(u32, &str); 4] = [
        (0, "UC_VERSION_GFX7"),
        (4, "UC_VERSION_GFX10"),
        (6, "UC_VERSION_GFX11"),
        (9, "UC_VERSION_GFX12"),
    ];
    match VERSIONS.iter().find(|row| row.0 == bits) {
        Some(row) => row.1.into(),
        None if bits <= 0xff => bits.to_string(),
        None => format!("0x{bits:x}"),
    }
}
