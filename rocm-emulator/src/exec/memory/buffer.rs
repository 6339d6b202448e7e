//! MUBUF and MTBUF instructions: raw and structured buffers with their range check, typed buffers, and scratch through
//! a descriptor.

use super::access::{Access, Outcome};
use super::action::Action;
use super::context::Context;
use super::descriptor::{Descriptor, Element};
use super::footprint::Footprint;
use super::lowering::{Lowering, Registers};
use super::places::{check_alignment, each_lane, scratch_places, zeros, Places};
use super::typed;
use crate::exec::counters::Class;
use crate::exec::scalar::Source;
use crate::exec::wave::{Row, Wave, LANES};
use crate::isa::{d16_loads_keep_half, BufferFormat, Encoding, Inst, Operand, Role, Traits};

/// What is done with each element.
enum Work {
    Plain(Action),
    Typed(Typed),
}

/// Components that change their format on the way.
struct Typed {
    store: bool,
    components: usize,
    /// The first component is in the low or high half of a register, and others follow in halves.
    halves: Option<Halves>,
    data: Registers,
    /// The instruction's own; else the descriptor's.
    format: Option<BufferFormat>,
}

#[derive(Clone, Copy)]
struct Halves {
    high: bool,
    /// A load into half a register keeps the other half.
    keep: bool,
}

/// The lanes whose elements are within a buffer's range.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Those whose elements are so whole.
    whole: u64,
    /// Loads and stores of several dwords are judged by each: the other lanes whose first, second, ... dword is.
    dwords: [u64; 4],
}

impl Inside {
    /// Bytes of elements of so many.
    fn bytes(&self, whole: u32) -> u64 {
        let dwords: u32 = self.dwords.iter().map(|lanes| lanes.count_ones()).sum();
        u64::from(whole) * u64::from(self.whole.count_ones()) + 4 * u64::from(dwords)
    }
}

/// A buffer instruction.
pub(crate) struct BufferOp {
    descriptor: u16,
    index: Option<u16>,
    voffset: Option<u16>,
    soffset: Source,
    offset: i64,
    site: u32,
    work: Work,
    /// The register behind the data that receives the status of partially resident textures: zero.
    status: Option<Registers>,
}

impl Typed {
    fn lower(inst: &Inst, lowering: &Lowering) -> Option<Typed> {
        let columns = &inst.op.columns;
        let store = columns.role == Role::StoreTyped;
        let components = usize::from(columns.components);
        let high = columns.has(Traits::HIGH_HALF);
        let halves = columns.has(Traits::HALVES).then_some(high);
        let rows = match halves {
            Some(_) => components.div_ceil(2),
            None => components,
        };
        let data = if store { inst.src[3] } else { inst.dst[0] };
        let keep = d16_loads_keep_half(lowering.target);
        let format = match inst.encoding {
            Encoding::MTBUF => match BufferFormat::of(lowering.target, inst.mem.format) {
                None => return None,
                format => format,
            },
            _ => None,
        };
        Some(Typed {
            store,
            components,
            halves: halves.map(|high| Halves { high, keep }),
            data: lowering.registers(data, rows as u8)?,
            format,
        })
    }

    /// Where the components come from or go to: a descriptor says so for the elements whose format it gives.
    fn selects(&self, descriptor: &Descriptor) -> [u8; 4] {
        match self.format {
            Some(_) => [4, 5, 6, 7],
            None => descriptor.selects(),
        }
    }

    /// Move the active lanes' components.
    ///
    /// # Safety
    /// The places of active lanes are valid for the format's bytes.
    unsafe fn run(
        &self,
        descriptor: &Descriptor,
        format: BufferFormat,
        wave: &mut Wave,
        places: &Places,
    ) {
        let (exec, lanes) = (wave.exec(), wave.lanes);
        let selects = self.selects(descriptor);
        let bytes = format.bytes() as usize;
        let rows = self.data.rows(wave);
        each_lane(exec, lanes, |lane| {
            let mut element = [0u8; 16];
            let at = places[lane] as *mut u8;
            if self.store {
                element = typed::store(format, self.components(rows, lane, selects, format))
                    .to_le_bytes();
                // SAFETY: the caller's promise; a format has at most 16 bytes.
                unsafe { std::ptr::copy_nonoverlapping(element.as_ptr(), at, bytes) };
                return;
            }
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(at, element.as_mut_ptr(), bytes) };
            let loaded = typed::load(format, u128::from_le_bytes(element));
            let components = selects.map(|select| match select {
                0 => 0,
                1 => typed::one(format),
                other => loaded[usize::from(other) & 3],
            });
            self.fill(rows, lane, components, format);
        });
    }

    /// A lane's components to store, each at its place in the element.
    fn components(
        &self,
        rows: &[Row],
        lane: usize,
        selects: [u8; 4],
        format: BufferFormat,
    ) -> [u32; 4] {
        let mut components = [0; 4];
        let given = (0..self.components).zip(selects).filter(|it| it.1 >= 4);
        for (component, select) in given {
            let value = match self.halves {
                None => rows[component].0[lane],
                Some(halves) => {
                    let shift = 16 * (component as u32 & 1 | u32::from(halves.high));
                    let half = rows[component / 2].0[lane] >> shift;
                    typed::widen(format, half as u16)
                }
            };
            components[usize::from(select) & 3] = value;
        }
        components
    }

    /// Write a lane's loaded components.
    fn fill(&self, rows: &mut [Row], lane: usize, components: [u32; 4], format: BufferFormat) {
        let given = components.into_iter().take(self.components).enumerate();
        let Some(halves) = self.halves else {
            for (component, value) in given {
                rows[component].0[lane] = value;
            }
            return;
        };
        for (component, value) in given {
            let shift = 16 * (component as u32 & 1 | u32::from(halves.high));
            let kept = match component & 1 {
                0 if halves.keep => rows[component / 2].0[lane],
                0 => 0,
                _ => rows[component / 2].0[lane],
            };
            let half = u32::from(typed::narrow(format, value)) << shift;
            rows[component / 2].0[lane] = kept & !(0xffff << shift) | half;
        }
    }
}

impl BufferOp {
    pub fn lower(inst: &Inst, lowering: &Lowering) -> Option<BufferOp> {
        let columns = &inst.op.columns;
        let data = if inst.mem.returns || columns.has(Traits::LOADS) {
            inst.dst[0]
        } else {
            inst.src[3]
        };
        let work = match columns.role {
            Role::LoadTyped | Role::StoreTyped => Work::Typed(Typed::lower(inst, lowering)?),
            _ => Work::Plain(Action::lower(inst, inst.src[3], lowering)?),
        };
        let Operand::Sgpr {
            first: descriptor, ..
        } = inst.src[1]
        else {
            return None;
        };
        let both = inst.mem.idxen && inst.mem.offen;
        let vaddr = match inst.src[0] {
            Operand::Vgpr { .. } => {
                let rows = if both { 2 } else { 1 };
                Some(lowering.registers(inst.src[0], rows)?.first)
            }
            _ => None,
        };
        Some(BufferOp {
            descriptor,
            index: vaddr.filter(|_| inst.mem.idxen),
            voffset: vaddr
                .map(|first| first + u16::from(both))
                .filter(|_| inst.mem.offen),
            soffset: Source::lower(inst.src[2])?,
            offset: inst.mem.offset.into(),
            site: lowering.site(),
            work,
            status: match inst.mem.tfe {
                true => Some(last(data, lowering)?),
                false => None,
            },
        })
    }

    pub fn run(&self, wave: &mut Wave, cx: &mut Context) -> Outcome {
        let exec = wave.exec();
        if exec == 0 {
            return Ok(());
        }
        cx.count(Class::Memory);
        cx.counters.lane_operations += u64::from(exec.count_ones());
        let descriptor = Descriptor::read(wave, self.descriptor);
        let format = self.format(&descriptor);
        let (bytes, access) = (self.bytes(format), self.access());
        if let (true, Work::Plain(action)) = (descriptor.scratch(), &self.work) {
            self.count(cx, u64::from(bytes) * u64::from(exec.count_ones()));
            // Scratch is interleaved by lane there: the scalar offset counts bytes of the whole wavefront.
            let base = i64::from(self.soffset.read32(wave) / wave.lanes) + self.offset;
            let zero = Row::ZERO;
            let voffset = self
                .voffset
                .map_or(&zero, |first| &wave.vgpr[usize::from(first)]);
            let places = scratch_places(base, voffset, exec, bytes, access, cx)?;
            // SAFETY: `scratch_places` checked every active lane.
            return unsafe { action.run(wave, cx, &places) };
        }
        let (places, inside) = self.places(&descriptor, bytes, wave);
        self.count(cx, inside.bytes(bytes));
        for lane in lanes(inside.whole) {
            cx.check(self.site, access, places[lane], bytes, Some(lane as u32))?;
        }
        for (dword, cut) in inside.dwords.into_iter().enumerate() {
            for lane in lanes(cut) {
                let place = places[lane] + 4 * dword as u64;
                cx.check(self.site, access, place, 4, Some(lane as u32))?;
            }
        }
        if access == Access::Atomic {
            check_alignment(&places, inside.whole, bytes)?;
        }
        self.clear_outside(&descriptor, exec & !inside.whole, wave, cx)?;
        // SAFETY: each of these dwords was checked.
        unsafe { self.move_dwords(&places, &inside.dwords, wave) };
        wave.set_exec(inside.whole);
        let done = match (&self.work, format) {
            // SAFETY: every lane that is left active was checked.
            (Work::Plain(action), _) => unsafe { action.run(wave, cx, &places) },
            (Work::Typed(typed), Some(format)) => {
                // SAFETY: as above, for the bytes of this format.
                unsafe { typed.run(&descriptor, format, wave, &places) };
                Ok(())
            }
            // A format that does not exist has no elements.
            (Work::Typed(_), None) => Ok(()),
        };
        wave.set_exec(exec);
        if let Some(status) = self.status {
            let lanes = wave.lanes;
            let row = &mut status.rows(wave)[0];
            each_lane(exec, lanes, |lane| row.0[lane] = 0);
        }
        done
    }

    /// The part of elements that is within the buffer's range where the whole is not.
    ///
    /// # Safety
    /// The dwords' places are valid.
    unsafe fn move_dwords(&self, places: &Places, dwords: &[u64; 4], wave: &mut Wave) {
        let Work::Plain(Action::Load(_, rows) | Action::Store(_, rows)) = &self.work else {
            return;
        };
        let is_load = self.access() == Access::Load;
        for (dword, row) in rows.rows(wave).iter_mut().enumerate() {
            for lane in lanes(dwords[dword]) {
                let place = (places[lane] + 4 * dword as u64) as *mut u32;
                // SAFETY: the caller's promise.
                unsafe {
                    match is_load {
                        true => row.0[lane] = place.read_unaligned(),
                        false => place.write_unaligned(row.0[lane]),
                    }
                }
            }
        }
    }

    /// Loads out of range return zero, to the LDS too, but where the descriptor selects one.
    fn clear_outside(
        &self,
        descriptor: &Descriptor,
        outside: u64,
        wave: &mut Wave,
        cx: &mut Context,
    ) -> Outcome {
        let lanes = wave.lanes;
        let (rows, ones) = match &self.work {
            Work::Plain(Action::Load(transfer, rows)) => {
                // SAFETY: zeros for as many bytes as a load reads at most; lowering made the registers as many as the
                // transfer's rows.
                unsafe { (transfer.scattered)(rows.rows(wave), &zeros(), outside, lanes) };
                return Ok(());
            }
            Work::Plain(action @ Action::LoadToLds { .. }) => {
                wave.set_exec(outside);
                // SAFETY: zeros for as many bytes as a load reads at most.
                return unsafe { action.run(wave, cx, &zeros()) };
            }
            Work::Typed(typed) if !typed.store => {
                let format = self.format(descriptor);
                (typed.data, format.map(|format| (typed, format)))
            }
            _ => return Ok(()),
        };
        let rows = rows.rows(wave);
        for lane in self::lanes(outside) {
            match ones {
                Some((typed, format)) => {
                    let selects = typed.selects(descriptor);
                    let one = typed::one(format);
                    let values = selects.map(|select| if select == 1 { one } else { 0 });
                    typed.fill(rows, lane, values, format);
                }
                None => rows.iter_mut().for_each(|row| row.0[lane] = 0),
            }
        }
        Ok(())
    }

    /// The format of the elements, where they have one.
    fn format(&self, descriptor: &Descriptor) -> Option<BufferFormat> {
        match &self.work {
            Work::Plain(_) => None,
            Work::Typed(typed) => typed.format.or_else(|| descriptor.format()),
        }
    }

    fn bytes(&self, format: Option<BufferFormat>) -> u32 {
        match &self.work {
            Work::Plain(action) => action.bytes(),
            Work::Typed(_) => format.map_or(0, BufferFormat::bytes),
        }
    }

    /// What it does at its addresses.
    pub fn access(&self) -> Access {
        match &self.work {
            Work::Plain(action) => action.access(),
            Work::Typed(typed) if typed.store => Access::Store,
            Work::Typed(_) => Access::Load,
        }
    }

    fn count(&self, cx: &mut Context, bytes: u64) {
        match self.access() {
            Access::Load => cx.counters.bytes_loaded += bytes,
            Access::Store | Access::Atomic => cx.counters.bytes_stored += bytes,
        }
    }

    /// Dwords of an element that are within the buffer's range or not by themselves.
    fn dwords(&self) -> u32 {
        match &self.work {
            Work::Plain(Action::Load(transfer, _) | Action::Store(transfer, _)) => {
                transfer.bytes / 4
            }
            _ => 0,
        }
    }

    /// Every active lane's address, and what is within the buffer's range.
    fn places(&self, descriptor: &Descriptor, bytes: u32, wave: &Wave) -> (Places, Inside) {
        let zero = Row::ZERO;
        let row =
            |register: Option<u16>| register.map_or(&zero, |first| &wave.vgpr[usize::from(first)]);
        let (indices, offsets) = (row(self.index), row(self.voffset));
        let (soffset, exec) = (self.soffset.read32(wave).into(), wave.exec());
        let adds_lane = descriptor.adds_lane();
        let mut places: Places = [0; LANES];
        let mut inside = Inside::default();
        if bytes == 0 {
            return (places, inside);
        }
        for lane in lanes(exec) {
            let element = Element {
                index: u64::from(indices.0[lane]) + if adds_lane { lane as u64 } else { 0 },
                offset: (self.offset as u64).wrapping_add(offsets.0[lane].into()),
                soffset,
                bytes,
                indexed: self.index.is_some() || adds_lane,
            };
            places[lane] = descriptor.address(&element);
            if descriptor.holds(&element) {
                inside.whole |= 1 << lane;
                continue;
            }
            for dword in 0..self.dwords() {
                let offset = element.offset + u64::from(4 * dword);
                let part = Element {
                    offset,
                    bytes: 4,
                    ..element
                };
                inside.dwords[dword as usize] |= u64::from(descriptor.holds(&part)) << lane;
            }
        }
        (places, inside)
    }

    /// The addresses that the lanes give, in memory or as offsets in scratch, and what is within range.
    pub fn addresses(&self, wave: &Wave) -> (Places, Inside) {
        let descriptor = Descriptor::read(wave, self.descriptor);
        self.places(&descriptor, self.bytes(self.format(&descriptor)), wave)
    }

    /// The accesses to global memory that [`BufferOp::run`] would make now, whole elements first; none where the buffer
    /// is scratch.
    pub fn footprints(&self, wave: &Wave, mut each: impl FnMut(Footprint)) {
        let descriptor = Descriptor::read(wave, self.descriptor);
        if descriptor.scratch() {
            return;
        }
        let bytes = self.bytes(self.format(&descriptor));
        let (places, inside) = self.places(&descriptor, bytes, wave);
        let access = self.access();
        each(Footprint {
            access,
            bytes,
            places: &places,
            lanes: inside.whole,
        });
        for (dword, lanes) in (0..).zip(inside.dwords).filter(|(_, lanes)| *lanes != 0) {
            each(Footprint {
                access,
                bytes: 4,
                places: &places.map(|place| place.wrapping_add(4 * dword)),
                lanes,
            });
        }
    }
}

/// The lanes of a mask.
fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

/// The last of an operand's registers.
fn last(operand: Operand, lowering: &Lowering) -> Option<Registers> {
    let dwords = match operand {
        Operand::Vgpr { dwords, .. } | Operand::Agpr { dwords, .. } => dwords,
        _ => return None,
    };
    let all = lowering.registers(operand, dwords)?;
    Some(Registers {
        first: all.first + u16::from(dwords) - 1,
        count: 1,
        ..all
    })
}
