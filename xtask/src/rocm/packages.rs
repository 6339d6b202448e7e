//! The packages of Debian that hold AMD's HIP and ROCr of this version, and what they need, by their places in the
//! archive's pool. Of the suites `experimental` and `sid`; built for a newer C library than Debian 12's, which is among
//! them.

/// The version of HIP and ROCr.
pub const VERSION: &str = "7.2.4";

/// A package.
pub struct Package {
    /// Its place in the pool, which is its name in folders, too.
    pub path: &'static str,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of it.
    pub sha256: &'static str,
}

impl Package {
    /// What the file is called.
    pub fn file(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }
}

const fn package(path: &'static str, bytes: u64, sha256: &'static str) -> Package {
    Package {
        path,
        bytes,
        sha256,
    }
}

/// Packages that belong together: nothing of one can be used without the others of it.
pub struct Set {
    /// What they hold, in words.
    pub what: &'static str,
    /// The folder that they are unpacked into: programs find what is in theirs alone.
    pub tree: &'static str,
    /// The packages.
    pub packages: &'static [Package],
    /// What they take when they are unpacked, in MB.
    pub unpacked: u32,
}

/// HIP and ROCr, and what they need.
pub const RUNTIME: Set = Set {
    what: "AMD's HIP",
    tree: "root",
    packages: RUNTIME_PACKAGES,
    unpacked: 250,
};

/// Libraries over HIP.
pub const LIBRARIES: Set = Set {
    what: "AMD's rocBLAS, rocRAND, rocFFT, hiprtc, rocSPARSE and hipBLASLt",
    tree: "libraries",
    packages: LIBRARY_PACKAGES,
    unpacked: 2805,
};

/// Collectives over several GPUs.
pub const COLLECTIVES: Set = Set {
    what: "AMD's RCCL",
    tree: "collectives",
    packages: COLLECTIVE_PACKAGES,
    unpacked: 390,
};

const COLLECTIVE_PACKAGES: &[Package] = &[
    package(
        "main/r/rccl/librccl1_7.2.4-1~exp3_amd64.deb",
        369_240_088,
        "505da86bed73fa221b97681410dcdb25a6a4b05be9bf40023a976ba9936f060f",
    ),
    package(
        "main/r/rocm-smi-lib/librocm-smi64-7_7.2.4-1~exp1_amd64.deb",
        428_188,
        "65ddafb06d8d58532f3c34c1331fa03b39438d2c1cac23586ee778136758d9e5",
    ),
];

const LIBRARY_PACKAGES: &[Package] = &[
    package(
        "main/r/rocblas/librocblas5_7.2.4-1~exp1_amd64.deb",
        318_474_840,
        "d7b0bdb3ca744edc42894c0774c0f4d2341acb42190808dc49251c0d1319b685",
    ),
    package(
        "main/r/roctracer/libroctx64-4_7.2.4-1~exp1_amd64.deb",
        5_628,
        "a5e7dc76192e02a02dd4592762e394acfc800e2c956fb79ef7b0d01569455399",
    ),
    package(
        "main/r/rocrand/librocrand1_7.2.4-1~exp1_amd64.deb",
        54_363_316,
        "9926865e63fa2dcb4224a7f78774ab1dc5ace888372f1e87e7f0c3ab16135258",
    ),
    package(
        "main/r/rocfft/librocfft0_7.2.4-1~exp1_amd64.deb",
        3_522_148,
        "9c19c237198365ef45a21d22bf1691b10f92776f730c0146d16ff409ca15c3a4",
    ),
    package(
        "main/r/rocm-hipamd/libhiprtc7_7.2.4-1~exp2_amd64.deb",
        169_824,
        "85b88195e47ac59c640bc57e3623030363cbedf4f145bc4fcaba88d7087a6038",
    ),
    package(
        "main/r/rocm-hipamd/libhiprtc-builtins7_7.2.4-1~exp2_amd64.deb",
        82_248,
        "2101eea1ef806012c134436b4d5db799b267d14ee99b5d16fc97f8d8a53ab843",
    ),
    package(
        "main/r/rocsparse/librocsparse1_7.2.4-1~exp1_amd64.deb",
        348_220_072,
        "b45eca42324826583edea4057497ad708e41cc55702b9899be7f5d862b171151",
    ),
    package(
        "main/h/hipblaslt/libhipblaslt1_7.2.4+dfsg-1~exp1_amd64.deb",
        257_143_720,
        "069f1fd323ad98ffd49049892024ef7a24697df9ffb6b874cfdfa70958cfdb06",
    ),
    package(
        "main/s/sqlite3/libsqlite3-0_3.53.4-2_amd64.deb",
        974_044,
        "bbf13c9326764d05e37e6590debdaa6f33af6bd822e3ca1204789d9d1dc23b11",
    ),
];

const RUNTIME_PACKAGES: &[Package] = &[
    package(
        "main/r/rocm-llvm/libamd-comgr3_7.2.4+dfsg-1~exp1_amd64.deb",
        12_468_028,
        "798c4b99a029dfc1c6e7b8eea794723308211d72d4e1364c0635118999eec089",
    ),
    package(
        "main/r/rocm-hipamd/libamdhip64-7_7.2.4-1~exp2_amd64.deb",
        9_958_752,
        "265743c8647c0200b014062d3fdcea617c1b7c87a214f666a86dc1da8dd53192",
    ),
    package(
        "main/b/bzip2/libbz2-1.0_1.0.8-6+b2_amd64.deb",
        39_948,
        "04c7528234a6a4a8a2c2470f1470a7a616d90904fe8cdccf4c2c655540cdc61f",
    ),
    package(
        "main/g/glibc/libc6_2.43-7_amd64.deb",
        1_866_392,
        "5c71715c51103beb4fbba9fe9f8dff604af6610dfa71c70bff342f54a7860803",
    ),
    package(
        "main/libd/libdrm/libdrm-amdgpu1_2.4.134-3_amd64.deb",
        23_300,
        "b7282a3422545c6cb488c3f4f5740844ad06c31030e7b9600700342a807ff519",
    ),
    package(
        "main/libd/libdrm/libdrm2_2.4.134-3_amd64.deb",
        38_528,
        "e1a841ed70c7b7bbd9a03f41c781101d668db0d35b4eee58d7705a6c32b88aaa",
    ),
    package(
        "main/libe/libedit/libedit2_3.1-20260512-1_amd64.deb",
        93_600,
        "85133718b6f81f44c88c4d95162e4e39af1521fbbd97d108d36294a37076a4cd",
    ),
    package(
        "main/e/elfutils/libelf1t64_0.196-1_amd64.deb",
        61_224,
        "dde2ab88aebdc4dfc017c5309cd17917f7230f1684fb82551390089cf0b7ced1",
    ),
    package(
        "main/libf/libffi/libffi8_3.8.0-2_amd64.deb",
        32_472,
        "8f52979b2f3831088c419aae858f10fd3ad7e42cc6c1d28967bae996a98223a4",
    ),
    package(
        "main/g/gcc-16/libgcc-s1_16.2.0-4_amd64.deb",
        74_120,
        "d251ea642c3795e8723ac2b9eeebe511467ca04590ba70f3d555a7616787d7e3",
    ),
    package(
        "main/r/rocr-runtime/libhsa-runtime64-1_7.2.4+dfsg-1~exp1_amd64.deb",
        682_428,
        "5298b55763e0f756f154f4fb9e142b0a93cb8584ef57e6f26127d295e9d08641",
    ),
    package(
        "main/l/llvm-toolchain-22/libllvm22_22.1.8-3_amd64.deb",
        29_441_420,
        "4c4a1219e6d3b38024f13d1781f398dc1ebeca759a3bafd2cc9dc9366e6f741e",
    ),
    package(
        "main/x/xz-utils/liblzma5_5.8.4-1_amd64.deb",
        354_284,
        "2dd166f61cb2a32c50f1a4dd3cd34f5f18a4ff97a6ff23665b9a57537fd60625",
    ),
    package(
        "main/n/numactl/libnuma1_2.0.19-1+b2_amd64.deb",
        22_036,
        "c4175eb2a991806b5f683f7b2a6a9e444f310058763070b30417e1f1021cf04c",
    ),
    package(
        "main/g/gcc-16/libstdc++6_16.2.0-4_amd64.deb",
        822_380,
        "cef6654bba1daece0bc0dbe0e3f69fa5a26eb6ba139f3536e6f4806bd787f3e7",
    ),
    package(
        "main/n/ncurses/libtinfo6_6.6+20260608-2_amd64.deb",
        352_696,
        "14682d1f6e35df22df0fe1eb2c09418aff0e29e2ea5a7bc0aa1bcd37192ba5a7",
    ),
    package(
        "main/libx/libxml2/libxml2-16_2.15.4+dfsg-1+b1_amd64.deb",
        683_676,
        "f2b4d9acff743ff71f5409ae301452ebbb37d0d8709cf46fc9ec755d7df803ff",
    ),
    package(
        "main/libz/libzstd/libzstd1_1.5.7+dfsg-4_amd64.deb",
        304_040,
        "93e7930e4c25b918f1dd980cc1c6d4487654a248f5fa71eacb976ed7bbe954bd",
    ),
    package(
        "main/z/zlib/zlib1g_1.3.dfsg+really1.3.2-4_amd64.deb",
        92_424,
        "8506ce550a81ac14b047608e0df121037d9cbb10c3cc28446f68cf8c1d9d31ce",
    ),
];
