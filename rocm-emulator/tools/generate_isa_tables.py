#!/usr/bin/env python3
"""Writes src/isa/tables/*.txt: the instruction layouts and opcode tables of every architecture.

The bit layouts below are the ISA manuals'. Everything about single opcodes (mnemonic, operand order,
widths, constants' formats, modifiers) is found by asking LLVM's disassembler: each opcode is probed with a
different register number in every field, and the text says which field went where. Run it again when
LLVM learns something new:

    python3 rocm-emulator/tools/generate_isa_tables.py            # libLLVM-19 from the usual places
    python3 rocm-emulator/tools/generate_isa_tables.py rdna3      # some of the files
    LIBLLVM=/path/to/libLLVM.so LIBLLVM_NEWER=/path/to/libLLVM.so python3 ...

LIBLLVM is LLVM 19. LIBLLVM_NEWER, LLVM 21 or later, is asked about the processors that LLVM 19 does not know (NEWER
below), and about the operands of GFX11 and GFX12 that are half a register (TRUE16 below), which it names `v1.l` and
`v1.h`.
"""
import ctypes
import glob
import itertools
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "..", "src", "isa", "tables")
LITERAL = 0x12345678


class Llvm:
    """LLVM's C disassembler interface for one processor."""

    libraries = {}

    def __init__(self, cpu, halves=False):
        newer = halves or cpu in NEWER
        if newer not in Llvm.libraries:
            variable, folders = ("LIBLLVM_NEWER", "2[0-9]") if newer else ("LIBLLVM", "19")
            names = [os.environ.get(variable)] + sorted(glob.glob(f"/usr/lib/llvm-{folders}/lib/libLLVM.so"), reverse=True)
            path = next((name for name in names if name and os.path.exists(name)), None)
            if path is None:
                raise SystemExit(f"libLLVM.so not found for {cpu}: install libllvm{20 if newer else 19} or set {variable}")
            lib = ctypes.CDLL(path)
            for part in ("TargetInfo", "Target", "TargetMC", "Disassembler"):
                getattr(lib, "LLVMInitializeAMDGPU" + part)()
            create = lib.LLVMCreateDisasmCPUFeatures
            create.restype = ctypes.c_void_p
            create.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int,
                               ctypes.c_void_p, ctypes.c_void_p]
            lib.LLVMDisasmInstruction.restype = ctypes.c_size_t
            lib.LLVMDisasmInstruction.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64,
                                                  ctypes.c_char_p, ctypes.c_size_t]
            Llvm.libraries[newer] = lib
        self.library = Llvm.libraries[newer]
        features = b"+real-true16" if halves else b""
        self.context = self.library.LLVMCreateDisasmCPUFeatures(b"amdgcn-amd-amdhsa", cpu.encode(), features, None, 0, None, None)
        self.buffer = ctypes.create_string_buffer(1024)

    def __call__(self, bits, words, literal=LITERAL):
        """The text of the instruction, or None; a literal follows the words."""
        data = bits.to_bytes(4 * words, "little") + literal.to_bytes(4, "little") * 3
        size = self.library.LLVMDisasmInstruction(self.context, data, len(data), 0, self.buffer, 1024)
        if not size:
            return None
        text = self.buffer.value.decode().strip()
        # LLVM flags operands that the instruction cannot have in a comment.
        return None if "/*Invalid" in text else text


class Layout:
    """One encoding: words, the bits that mark it, and where its fields lie (first bit, width)."""

    def __init__(self, name, words, prefix, op, **fields):
        self.name, self.words, self.op, self.fields = name, words, op, fields
        bits, self.extra = prefix if isinstance(prefix, tuple) else (prefix, {})
        self.mask = ((1 << len(bits)) - 1) << (32 - len(bits))
        self.match = int(bits, 2) << (32 - len(bits))
        for (first, width), value in self.extra.items():
            self.mask |= ((1 << width) - 1) << first
            self.match |= value << first

    def line(self):
        op = "+".join(f"{first}:{width}" for first, width in self.op)
        fields = " ".join(f"{name}={first}:{width}" for name, (first, width) in self.fields.items())
        return f"encoding {self.name} {self.words} {self.match:08x} {self.mask:08x} op={op} {fields}"


def at(first, width=1):
    return (first, width)


VOP3 = dict(vdst=at(0, 8), abs=at(8, 3), op_sel=at(11, 4), clamp=at(15), src0=at(32, 9), src1=at(41, 9), src2=at(50, 9),
            omod=at(59, 2), neg=at(61, 3))
VOP3SD = dict(vdst=at(0, 8), sdst=at(8, 7), clamp=at(15), src0=at(32, 9), src1=at(41, 9), src2=at(50, 9), omod=at(59, 2),
              neg=at(61, 3))
VOP3P = dict(vdst=at(0, 8), neg_hi=at(8, 3), op_sel=at(11, 3), op_sel_hi2=at(14), clamp=at(15), src0=at(32, 9),
             src1=at(41, 9), src2=at(50, 9), op_sel_hi=at(59, 2), neg=at(61, 3))
VINTERP = dict(vdst=at(0, 8), wait_exp=at(8, 3), op_sel=at(11, 4), clamp=at(15), src0=at(32, 9), src1=at(41, 9),
               src2=at(50, 9), neg=at(61, 3))
MAI = dict(vdst=at(0, 8), cbsz=at(8, 3), abid=at(11, 4), acc_cd=at(15), src0=at(32, 9), src1=at(41, 9), src2=at(50, 9),
           acc=at(59, 2), blgp=at(61, 3))
BUFFER = dict(vaddr=at(32, 8), vdata=at(40, 8), srsrc=at(48, 5), soffset=at(56, 8))
DS = dict(offset0=at(0, 8), offset1=at(8, 8), addr=at(32, 8), data0=at(40, 8), data1=at(48, 8), vdst=at(56, 8))
FLAT = dict(vaddr=at(32, 8), vdata=at(40, 8), saddr=at(48, 7), vdst=at(56, 8))
SEGMENTS = (("FLAT", 0), ("SCRATCH", 1), ("GLOBAL", 2))


def scalar_and_vector():
    return [
        Layout("SOP1", 1, "101111101", [at(8, 8)], sdst=at(16, 7), ssrc0=at(0, 8)),
        Layout("SOPC", 1, "101111110", [at(16, 7)], ssrc0=at(0, 8), ssrc1=at(8, 8)),
        Layout("SOPP", 1, "101111111", [at(16, 7)], simm=at(0, 16)),
        Layout("SOPK", 1, "1011", [at(23, 5)], sdst=at(16, 7), simm=at(0, 16)),
        Layout("SOP2", 1, "10", [at(23, 7)], sdst=at(16, 7), ssrc0=at(0, 8), ssrc1=at(8, 8)),
        Layout("VOPC", 1, "0111110", [at(17, 8)], src0=at(0, 9), vsrc1=at(9, 8)),
        Layout("VOP1", 1, "0111111", [at(9, 8)], vdst=at(17, 8), src0=at(0, 9)),
        Layout("VOP2", 1, "0", [at(25, 6)], vdst=at(17, 8), src0=at(0, 9), vsrc1=at(9, 8)),
    ]


def vega():
    """GFX9 without accumulation registers in memory instructions."""
    flat = dict(FLAT, offset=at(0, 13), lds=at(13), glc=at(16), slc=at(17))
    buffer = dict(BUFFER, offset=at(0, 12), offen=at(12), idxen=at(13), glc=at(14), tfe=at(55))
    replaced = {
        "DS": Layout("DS", 2, "110110", [at(17, 8)], **DS, gds=at(16)),
        "MUBUF": Layout("MUBUF", 2, "111000", [at(18, 7)], **buffer, lds=at(16), slc=at(17)),
        "MTBUF": Layout("MTBUF", 2, "111010", [at(15, 4)], **buffer, format=at(19, 7), slc=at(54)),
    }
    replaced.update({name: Layout(name, 2, ("110111", {at(14, 2): segment}), [at(18, 7)], **flat) for name, segment in SEGMENTS})
    return [replaced.get(layout.name, layout) for layout in cdna() if layout.name != "MAI"]


def cdna1():
    """Matrix instructions, whose sums are always accumulation registers."""
    others = {layout.name: layout for layout in vega()}
    return [others.get(layout.name, layout) for layout in cdna()]


def cdna():
    flat = dict(FLAT, offset=at(0, 13), glc=at(16), slc=at(17), scc=at(25), acc=at(55))
    buffer = dict(BUFFER, offset=at(0, 12), offen=at(12), idxen=at(13), glc=at(14), acc=at(55))
    layouts = scalar_and_vector() + [
        Layout("MAI", 2, "110100111", [at(16, 7)], **MAI),
        Layout("VOP3P", 2, "110100111", [at(16, 7)], **VOP3P),
        Layout("VOP3", 2, "110100", [at(16, 10)], **VOP3),
        Layout("VOP3SD", 2, "110100", [at(16, 10)], **VOP3SD),
        Layout("SMEM", 2, "110000", [at(18, 8)], sbase=at(0, 6), sdata=at(6, 7), soffset_en=at(14), glc=at(16), imm=at(17),
               offset=at(32, 21), soffset=at(57, 7)),
        Layout("DS", 2, "110110", [at(17, 8)], **DS, gds=at(16), acc=at(25)),
        Layout("MUBUF", 2, "111000", [at(18, 7)], **buffer, scc=at(15), lds=at(16), slc=at(17)),
        Layout("MTBUF", 2, "111010", [at(15, 4)], **buffer, format=at(19, 7), scc=at(53), slc=at(54)),
    ]
    for name, segment in SEGMENTS:
        layouts.append(Layout(name, 2, ("110111", {at(14, 2): segment}), [at(18, 7)], **flat, lds=at(13)))
    return layouts


def cdna3():
    """The bit that brings loads into LDS tells scratch instructions whether they have a vector address."""
    layouts = cdna()
    scratch = next(layout for layout in layouts if layout.name == "SCRATCH")
    scratch.fields["sve"] = scratch.fields.pop("lds")
    return layouts


def rdna2():
    flat = dict(FLAT, offset=at(0, 12), dlc=at(12), lds=at(13), glc=at(16), slc=at(17))
    buffer = dict(BUFFER, offset=at(0, 12), offen=at(12), idxen=at(13), glc=at(14), dlc=at(15), slc=at(54), tfe=at(55))
    return scalar_and_vector() + [
        Layout("VOP3", 2, "110101", [at(16, 10)], **VOP3),
        Layout("VOP3SD", 2, "110101", [at(16, 10)], **VOP3SD),
        Layout("VOP3P", 2, "110011", [at(16, 7)], **VOP3P),
        Layout("SMEM", 2, "111101", [at(18, 8)], sbase=at(0, 6), sdata=at(6, 7), dlc=at(14), glc=at(16), offset=at(32, 21),
               soffset=at(57, 7)),
        Layout("DS", 2, "110110", [at(18, 8)], **DS, gds=at(17)),
        Layout("MUBUF", 2, "111000", [at(18, 8)], **buffer, lds=at(16)),
        Layout("MTBUF", 2, "111010", [at(16, 3), at(53)], **buffer, format=at(19, 7)),
    ] + [Layout(name, 2, ("110111", {at(14, 2): segment}), [at(18, 7)], **flat) for name, segment in SEGMENTS]


def vopd():
    return Layout("VOPD", 2, "110010", [at(22, 4)], opy=at(17, 5), src0=at(0, 9), vsrc1=at(9, 8), src0y=at(32, 9),
                  vsrc1y=at(41, 8), vdsty=at(49, 7), vdst=at(56, 8))


def rdna3():
    flat = dict(FLAT, offset=at(0, 13), dlc=at(13), glc=at(14), slc=at(15), sve=at(55))
    buffer = dict(BUFFER, offset=at(0, 12), slc=at(12), dlc=at(13), glc=at(14), tfe=at(53), offen=at(54), idxen=at(55))
    return scalar_and_vector() + [
        vopd(),
        Layout("VINTERP", 2, "11001101", [at(16, 7)], **VINTERP),
        Layout("VOP3P", 2, "11001100", [at(16, 7)], **VOP3P),
        Layout("VOP3", 2, "110101", [at(16, 10)], **VOP3),
        Layout("VOP3SD", 2, "110101", [at(16, 10)], **VOP3SD),
        Layout("SMEM", 2, "111101", [at(18, 8)], sbase=at(0, 6), sdata=at(6, 7), dlc=at(13), glc=at(14), offset=at(32, 21),
               soffset=at(57, 7)),
        Layout("DS", 2, "110110", [at(18, 8)], **DS, gds=at(17)),
        Layout("MUBUF", 2, "111000", [at(18, 8)], **buffer),
        Layout("MTBUF", 2, "111010", [at(15, 4)], **buffer, format=at(19, 7)),
    ] + [Layout(name, 2, ("110111", {at(16, 2): segment}), [at(18, 7)], **flat) for name, segment in SEGMENTS]


def rdna4():
    policy = dict(scope=at(50, 2), th=at(52, 3))
    flat = dict(saddr=at(0, 7), vdst=at(32, 8), sve=at(49), vdata=at(55, 8), vaddr=at(64, 8), offset=at(72, 24), **policy)
    buffer = dict(soffset=at(0, 7), tfe=at(22), vdata=at(32, 8), srsrc=at(41, 9), format=at(55, 7), offen=at(62),
                  idxen=at(63), vaddr=at(64, 8), offset=at(72, 24), **policy)
    return scalar_and_vector() + [
        vopd(),
        Layout("VINTERP", 2, "11001101", [at(16, 5)], **VINTERP),
        Layout("VOP3P", 2, "11001100", [at(16, 7)], **VOP3P),
        Layout("VOP3", 2, "110101", [at(16, 10)], **VOP3),
        Layout("VOP3SD", 2, "110101", [at(16, 10)], **VOP3SD),
        Layout("SMEM", 2, "111101", [at(13, 6)], sbase=at(0, 6), sdata=at(6, 7), scope=at(21, 2), th=at(23, 2),
               offset=at(32, 24), soffset=at(57, 7)),
        Layout("DS", 2, "110110", [at(18, 8)], **DS),
        Layout("MUBUF", 3, ("110001", {at(21): 0}), [at(14, 7)], **buffer),
        Layout("MTBUF", 3, ("110001", {at(21): 1}), [at(14, 7)], **buffer),
    ] + [Layout(name, 3, ("111011", {at(24, 2): segment}), [at(14, 7)], **flat) for name, segment in SEGMENTS]


# What each field is probed with: a register number of its own, then plain zero. 9-bit sources: VGPR, then SGPR.
NUMBERS = dict(vdst=64, sdst=80, src0=16, src1=32, src2=48, vsrc1=32, ssrc0=32, ssrc1=48, sbase=16, sdata=64, soffset=96,
               srsrc=20, vaddr=16, vdata=32, saddr=48, addr=16, data0=32, data1=128)
SCALE = dict(sbase=2, srsrc=4)
# Fields beside registers that must not be zero for some opcodes to decode.
SWITCHES = dict(acc=(0, 3), acc_cd=(0, 1), imm=(1, 0), op_sel_hi2=(1, 0), op_sel_hi=(3, 0), simm=(0x12, 0), offen=(0, 1), gds=(0, 1))


def register_candidates(layout, name, width):
    number = NUMBERS[name]
    encoded = number // SCALE.get(name, 1) if not (name == "srsrc" and width == 9) else number
    null = 0x80 if name in ("src0", "src1", "src2") else 0
    if width == 9 and name != "srsrc":
        return [256 + number, number, 0]
    if name == "saddr":
        return [number, 0x7F, 0x7D, 0x7C, 0]
    if name == "soffset" and layout.name == "SMEM":
        return [number, 0]
    return [encoded, null] if null else [encoded, 0]


REGISTER = re.compile(r"^([vsa])(?:\[(\d+):(\d+)\]|(\d+)(?:\.[lh])?)$")
# Printed formats of 248 (1/2pi) tell how an operand reads constants.
STYLE = {"0.15915494": "f", "0.15915494309189532": "d", "0x3118": "w", "0x3e22": "b"}


def split(text):
    """Mnemonic, operands, trailing modifiers."""
    mnemonic, _, rest = text.partition(" ")
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])(?![^(]*\))", rest)] if rest else []
    trailing = ""
    if parts:
        first, _, trailing = parts[-1].partition(" ")
        parts[-1] = first
    return mnemonic, parts, trailing


class Prober:
    def __init__(self, cpu, layouts, halves=False):
        self.llvm, self.layouts, self.cpu = Llvm(cpu, halves), layouts, cpu

    def word(self, layout, opcode, values):
        bits = layout.match
        for first, width in layout.op:
            bits |= (opcode & ((1 << width) - 1)) << first
            opcode >>= width
        for name, value in values.items():
            first, width = layout.fields[name]
            assert value < 1 << width, (layout.name, name, value)
            bits |= value << first
        return bits

    def ask(self, layout, opcode, values, literal=LITERAL):
        return self.llvm(self.word(layout, opcode, values), layout.words, literal)

    def find(self, layout, opcode):
        """The first field assignment that LLVM accepts, most informative first."""
        names = [name for name in layout.fields if name in NUMBERS]
        choices = [register_candidates(layout, name, layout.fields[name][1]) for name in names]
        switches = [name for name in layout.fields if name in SWITCHES]
        for switch in itertools.product(*(SWITCHES[name] for name in switches)):
            fixed = {n: v for n, v in zip(switches, switch) if v < 1 << layout.fields[n][1]}
            if len(fixed) < len(switches):
                continue
            if layout.name in ("SOP1", "SOP2", "SOPC", "SOPK", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "MAI",
                               "VINTERP"):
                order = sorted(itertools.product(*(range(len(c)) for c in choices)), key=lambda t: (sum(t), t))
            else:
                order = itertools.product(*(range(len(c)) for c in choices))
            for pick in order:
                values = dict(fixed, **{n: c[i] for n, c, i in zip(names, choices, pick)})
                text = self.ask(layout, opcode, values)
                if text:
                    return values, text
        return None

    def style(self, layout, opcode, values, name, position):
        """How source `name` reads inline constants and literals: a letter, or '' when it takes registers only."""
        def probe(code, literal=LITERAL):
            text = self.ask(layout, opcode, dict(values, **{name: code}), literal)
            if not text:
                return None
            parts = split(text)[1]
            return parts[position] if position < len(parts) else None
        constant = probe(248)
        letter = STYLE.get(constant, "")
        if constant and not letter and not constant.startswith(("v", "s", "n")):
            raise SystemExit(f"unknown constant format {constant} of {layout.name} {opcode}")
        if letter == "f" and probe(242) != "1.0":
            raise SystemExit(f"odd constants in {layout.name} {opcode}")
        literal = probe(255) if layout.name not in ("SMEM",) else None
        if letter == "f" and literal == "0x5678":
            return "h"
        if literal and letter == "d" and probe(255, 5) == "5":
            return "q"
        if literal and letter == "f" and probe(255, 0x10000) == "0":
            return "c"
        # Pairs of halves show a literal that fits one half as that half.
        if literal and letter == "f" and probe(255, 0x3C00) == "1.0":
            return "g"
        if literal and letter == "f" and probe(255, 0x3F80) == "1.0":
            return "b"
        return letter

    def tokens(self, layout, opcode, values, text):
        mnemonic, parts, trailing = split(text)
        by_number = {}
        for name in values:
            if name in NUMBERS:
                by_number.setdefault(NUMBERS[name], name)
        # VOP2-style fields share numbers with VOP3's; only this layout's are in `values`.
        tokens = []
        for position, part in enumerate(parts):
            match = REGISTER.match(part)
            if match:
                kind, low, high, single = match.groups()
                number = int(low if low is not None else single)
                dwords = int(high) - int(low) + 1 if low is not None else 1
                name = by_number.get(number)
                if name is None or (values.get(name) == 0):
                    # A zero value prints as register 0 of a field that could not hold its own number.
                    name = next((n for n in values if n in NUMBERS and values[n] in (number, number + 256) and
                                 not any(t.startswith(n + ":") for t in tokens)), None)
                if name is None:
                    raise SystemExit(f"{self.cpu} {layout.name} {opcode:#x}: no field for {part} in {text}")
                letter = {"v": "v", "s": "s", "a": "A"}[kind]
                if name in ("src0", "src1", "src2", "ssrc0", "ssrc1"):
                    style = self.style(layout, opcode, values, name, position)
                    if layout.fields[name][1] == 9 and letter != "A":
                        letter = "x" if self.accumulates(layout, opcode, values, position) else "n"
                    tokens.append(f"{name}:{letter}{dwords}{style}")
                else:
                    tokens.append(f"{name}:{letter}{dwords}")
            elif part in ("vcc", "vcc_lo"):
                tokens.append("vcc")
            elif part in ("off", "null"):
                tokens.append("off")
            elif part in ("m0", "exec", "exec_lo", "lds_direct"):
                tokens.append(part)
            elif part in (hex(LITERAL), hex(LITERAL & 0xFFFF)):
                tokens.append("literal" if part == hex(LITERAL) else "literal16")
            elif mnemonic.startswith("s_sendmsg_rtn"):
                tokens.append("ssrc0:message")
                break
            elif mnemonic == "s_set_gpr_idx_on":
                tokens.append("ssrc1:gpr_idx")
            elif layout.name in ("SOPK", "SOPP"):
                tokens.append("simm:" + self.immediate(layout, opcode, values, position))
            elif layout.name == "SMEM" and re.match(r"^(0x)?[0-9a-f]+$", part):
                tokens.append("simm")
            elif part == "0" and layout.name.startswith("VOP"):
                raise SystemExit(f"{self.cpu} {layout.name} {opcode:#x}: {text}")
            else:
                tokens.append("?" + part)
        return mnemonic, tokens, trailing

    def accumulates(self, layout, opcode, values, position):
        """Whether the ACC bits can make this source of a matrix instruction an accumulation register."""
        if layout.name != "MAI":
            return True
        for acc_cd in (0, 1):
            parts = split(self.ask(layout, opcode, dict(values, acc=3, acc_cd=acc_cd)) or "")[1]
            if position < len(parts) and parts[position].startswith("a"):
                return True
        return False

    def immediate(self, layout, opcode, values, position):
        """How a 16-bit immediate is printed."""
        text = self.ask(layout, opcode, dict(values, simm=0x8123)) or ""
        small = self.ask(layout, opcode, dict(values, simm=5)) or ""
        tail, small = text.split(" ", 1)[-1].split(", ")[-1], small.split(" ", 1)[-1].split(", ")[-1]
        name = text.split(" ")[0]
        if "hwreg" in text:
            return "hwreg"
        if name in ("s_sendmsg", "s_sendmsghalt"):
            return "sendmsg"
        if name == "s_waitcnt":
            return "waitcnt"
        if name == "s_delay_alu":
            return "delay_alu"
        if name in ("s_waitcnt_depctr", "s_wait_alu"):
            return "depctr"
        if name == "s_set_gpr_idx_mode":
            return "gpr_idx"
        if name == "s_version":
            return "version"
        if tail == "33059":
            return "branch" if name not in ("s_endpgm",) else "decimal_or_none"
        return "hex" if small == "0x5" else "mixed"

    def flags(self, layout, opcode, values, text):
        """Which modifiers the instruction prints."""
        flags = []

        def says(what, **changed):
            answer = self.ask(layout, opcode, dict(values, **changed)) or ""
            found = re.search(what + r":\[([^\]]*)\]", answer)
            return len(found.group(1).split(",")) if found else (what in answer and what.isalpha())
        fields = layout.fields
        if "op_sel" in fields:
            for value in ((15, 8, 4, 2, 1) if layout.name in ("VOP3", "VINTERP") else (7, 3, 1)):
                count = says("op_sel", op_sel=value)
                if count:
                    flags.append(f"op_sel{count}")
                    break
        if layout.name == "VOP3P":
            for mask in (3, 1):
                if f"index_key:{mask}" in (self.ask(layout, opcode, dict(values, op_sel=mask)) or ""):
                    flags.append(f"index_key{mask}")
                    break
        if layout.name == "VOP3":
            # GFX12 calls the bits that choose a byte so; the lower one of them is listed second for sources.
            for first in (0, 2):
                if "byte_sel:3" in (self.ask(layout, opcode, dict(values, op_sel=3 << first)) or ""):
                    one = self.ask(layout, opcode, dict(values, op_sel=1 << first))
                    flags.append(f"byte_sel{first}" + ("" if "byte_sel:1" in one else "r"))
        if "op_sel_hi" in fields:
            if says("op_sel_hi", op_sel_hi=0, op_sel_hi2=0):
                flags.append("packed")
            elif says("op_sel_hi", op_sel_hi=3, op_sel_hi2=1):
                flags.append("mix")
        for name, value in (("neg_hi", 7), ("neg", 7)):
            if name in fields and layout.name == "VOP3P":
                for v in (7, 4, 3, 1):
                    count = says("neg_hi" if name == "neg_hi" else "neg_lo", **{name: v})
                    if count:
                        flags.append(f"{name}{count}")
                        break
        if layout.name in ("VOP3", "VOP3SD", "VINTERP"):
            # Masks of the sources whose signs can be changed.
            for name, pattern in (("neg", r"(-|neg\()[vs\d]"), ("abs", r"\|")):
                mask = sum(1 << bit for bit in range(3) if name in fields and
                           re.search(pattern, self.ask(layout, opcode, dict(values, **{name: 1 << bit})) or ""))
                if mask:
                    flags.append(f"{name}{mask}")
        if layout.name == "MAI":
            for name in ("cbsz", "abid", "blgp"):
                if (name in (self.ask(layout, opcode, dict(values, **{name: 1})) or "") or
                        (name == "blgp" and "neg:" in (self.ask(layout, opcode, dict(values, blgp=1)) or ""))):
                    flags.append(name)
        if layout.name in ("FLAT", "GLOBAL", "SCRATCH") and "_atomic" in text:
            returning = dict(th=1) if "th" in fields else dict(glc=1)
            answer = self.ask(layout, opcode, dict(values, **returning)) or ""
            found = re.search(r" v\[64:(\d+)\]| v64,", answer)
            if found:
                flags.append(f"returns{int(found.group(1)) - 63 if found.group(1) else 1}")
        if layout.name == "DS":
            if "offset0" in (self.ask(layout, opcode, dict(values, offset0=1)) or ""):
                flags.append("two")
            elif "offset:" not in (self.ask(layout, opcode, dict(values, offset0=1)) or ""):
                flags.append("no_offset")
            if not (self.ask(layout, opcode, dict(values, gds=0)) if "gds" in fields else text):
                flags.append("gds")
        return flags


def table(cpu, layouts):
    prober = Prober(cpu, layouts)
    half_prober = Prober(cpu, layouts, halves=True) if cpu in TRUE16 else None
    entries = {}
    for layout in layouts:
        if layout.name == "VOPD":
            entries.update(dual(prober, layout))
            continue
        for opcode in range(1 << sum(width for _, width in layout.op)):
            if special(layout, opcode, cpu):
                continue
            if layout.name in ("VOP3", "VOP3SD") and is_carry(prober, opcode) != (layout.name == "VOP3SD"):
                continue
            has_halves = half_prober and layout.name in ("VOP1", "VOP2", "VOPC", "VOP3", "VINTERP")
            asked, found = prober, prober.find(layout, opcode)
            if not found and has_halves:
                asked, found = half_prober, half_prober.find(layout, opcode)
            if not found:
                continue
            values, text = found
            mnemonic, tokens, trailing = asked.tokens(layout, opcode, values, text)
            mai = mnemonic.startswith(("v_mfma", "v_smfmac", "v_accvgpr"))
            if layout.name in ("MAI", "VOP3P") and mai != (layout.name == "MAI"):
                continue
            if mnemonic == "v_illegal" or any(token.startswith("?") for token in tokens):
                print(f"{cpu}: left out {layout.name} {opcode:#x}: {text}", file=sys.stderr)
                continue
            flags = asked.flags(layout, opcode, values, text)
            if has_halves:
                named = half_prober.ask(layout, opcode, values) or ""
                mask = half_operands(split(named)[1], tokens)
                if mask:
                    flags.append(f"half{mask}")
                if mask and (asked is half_prober or ".l" in text):
                    flags.append("true16")
            entries[(layout.name, opcode)] = (mnemonic, tokens, flags)
    return entries


def half_operands(parts, tokens):
    """The operands that are half a register: a bit for each source in the text's order, and bit 3 for the destination."""
    mask, source = 0, 0
    for position, (part, token) in enumerate(zip(parts, tokens)):
        half = part.endswith((".l", ".h"))
        if token.startswith(("vdst:", "sdst:")) or position == 0 and token == "vcc":
            mask |= 8 if half else 0
            continue
        mask |= half << source
        source += 1
    return mask


def special(layout, opcode, cpu):
    """Opcodes of a layout that belong to another encoding under the same prefix."""
    if layout.name == "SOP2":
        return opcode >= 0x60
    if layout.name == "SOPK":
        return opcode >= 0x1D
    if layout.name == "VOP2":
        return opcode >= 0x3E
    if layout.name in ("VOP3", "VOP3SD") and cpu.startswith("gfx9"):
        return opcode >= 0x380
    return False


def is_carry(prober, opcode):
    layout = next(layout for layout in prober.layouts if layout.name == "VOP3SD")
    found = prober.find(layout, opcode)
    if not found:
        return False
    number = found[0]["sdst"]
    return bool(re.search(rf", s(\[{number}:{number + 1}\]|{number}), ", found[1]))


def dual(prober, layout):
    """The X and Y halves of dual issue, each probed beside a plain move (opcode 8)."""
    entries = {}
    values = dict(src0=256 + 16, src0y=256 + 17, vdsty=65 >> 1, vdst=64)
    for half, name in enumerate(("VOPDX", "VOPDY")):
        second = ("vsrc1", "vsrc1y")[half]
        for opcode in range(1 << (4 if half == 0 else 5)):
            x, y = (opcode, 8) if half == 0 else (8, opcode)
            # Moves have no second source, and want zero there.
            text = (prober.ask(layout, x, dict(values, opy=y, **{second: 32 + half})) or
                    prober.ask(layout, x, dict(values, opy=y)))
            if not text:
                continue
            mnemonic, parts, _ = split(text.split(" :: ")[half])
            fields = {f"v{64 + half}": "vdst:v1", f"v{16 + half}": "src0:x1f", f"v{32 + half}": "vsrc1:v1",
                      "vcc_lo": "vcc", hex(LITERAL): "literal"}
            if "dot2acc" in mnemonic:
                fields[f"v{16 + half}"] = "src0:x1g"
            entries[(name, opcode)] = (mnemonic, [fields[part] for part in parts], [])
    return entries


def names(cpu):
    """Names of hardware registers, messages and buffer formats: (kind, value, name)."""
    llvm = Llvm(cpu)
    rows = []
    candidates = [0xB0000000 | op << 23 for op in range(0x1D)]
    getreg = next(word for word in candidates if (llvm(word, 1) or "").startswith("s_getreg_b32"))
    for register in range(64):
        found = re.search(r"hwreg\((\w+)", llvm(getreg | register, 1) or "")
        if found and not found.group(1).isdigit():
            rows.append(("hwreg", register, found.group(1)))
    send = next(word for word in (0xBF800000 | op << 16 for op in range(0x80))
                if (llvm(word | 1, 1) or "").startswith("s_sendmsg "))
    # Higher bits of the immediate do not matter.
    for message in range(0x400 if cpu.startswith(("gfx9", "gfx10")) else 0x100):
        found = re.search(r"sendmsg\(([A-Z].*)\)", llvm(send | message, 1) or "")
        if found:
            rows.append(("message", message, found.group(1).replace(", ", ",")))
    layouts = LAYOUTS[cpu]()
    prober = Prober(cpu, layouts)
    rtn = next((op for op in range(256) if (prober.ask(layouts[0], op, dict(ssrc0=128, sdst=0)) or "")
                .startswith("s_sendmsg_rtn_b32")), None)
    if rtn is not None:
        for message in range(256):
            found = re.search(r"sendmsg\(([A-Z].*)\)", prober.ask(layouts[0], rtn, dict(ssrc0=message, sdst=0)) or "")
            if found:
                rows.append(("message", message, found.group(1).replace(", ", ",")))
    layout = next(layout for layout in layouts if layout.name == "MTBUF")
    for value in range(128):
        found = re.search(r"format:\[?([A-Z][A-Z0-9_, ]*|\d+)", prober.ask(layout, 0, dict(format=value, soffset=96)) or "")
        if found and not found.group(1).isdigit():
            rows.append(("format", value, found.group(1).replace(", ", ",")))
        elif found is None:
            rows.append(("format", value, "-"))
    return list(dict.fromkeys(rows))


LAYOUTS = dict(gfx906=vega, gfx908=cdna1, gfx90a=cdna, gfx942=cdna3, gfx950=cdna3, gfx1030=rdna2, gfx1100=rdna3, gfx1150=rdna3,
               gfx1201=rdna4)
FILES = dict(gfx9=("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"), rdna2=("gfx1030",), rdna3=("gfx1100", "gfx1150"),
             rdna4=("gfx1201",))
# Processors that LLVM 19 does not know.
NEWER = ("gfx950",)
# Processors whose 16-bit operands are halves of registers, in the short formats too.
TRUE16 = ("gfx1100", "gfx1150", "gfx1201")


def write(file, cpus):
    """One file: layouts, opcodes, names. A line begins with the processors that have it, or with `*` if all do.

    What a NEWER processor has in common with another is told by LLVM 19, so that all are written in the same way.
    """
    lines, known = {}, {}
    names_of = [[layout.name for layout in LAYOUTS[cpu]()] for cpu in cpus]
    order = max(names_of, key=len)
    for cpu in cpus:
        for layout in LAYOUTS[cpu]():
            lines.setdefault(layout.line(), ("encoding", order.index(layout.name), []))[2].append(cpu)
        for (encoding, opcode), (mnemonic, tokens, flags) in table(cpu, LAYOUTS[cpu]()).items():
            line = " ".join([encoding, f"{opcode:x}", mnemonic, *tokens] + (["|", *flags] if flags else []))
            registers = tuple(re.sub(r"(?<=\d)[a-z]$", "", token) for token in tokens)
            key = (encoding, opcode, mnemonic, registers)
            if cpu in NEWER:
                line = known.get(key, line)
            known[key] = line
            lines.setdefault(line, (encoding, opcode, []))[2].append(cpu)
        for kind, value, name in names(cpu):
            lines.setdefault(f"{kind} {value:x} {name}", (kind, value, []))[2].append(cpu)
    rank = {name: index for index, name in enumerate(["encoding"] + order + ["VOPDX", "VOPDY", "hwreg", "message", "format"])}
    with open(os.path.join(OUT, file + ".txt"), "w") as out:
        out.write(f"# Instruction tables of {', '.join(cpus)}: written by tools/generate_isa_tables.py, read by src/isa/table.rs.\n")
        for line, (kind, value, owners) in sorted(lines.items(), key=lambda item: (rank[item[1][0]], item[1][1], item[0])):
            out.write(f"{'*' if len(owners) == len(cpus) else ','.join(owners)} {line}\n")


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    for file in sys.argv[1:] or FILES:
        write(file, FILES[file])
