//! Code objects: ELF, AMDGPU metadata, kernel descriptors, clang's offload bundles.
