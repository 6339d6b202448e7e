//! Inline PTX in preprocessed CUDA, rewritten to calls of the functions in `candle_rocm/ptx.h`.
//!
//! `source` finds the `asm` statements, `statement` takes one apart, `instruction` does so with the PTX in it,
//! `translate` writes C++, by the tables of `table`. `unknown` is what an error says.

mod instruction;
mod parentheses;
mod source;
mod statement;
mod table;
mod translate;
mod unknown;

pub use source::{rewrite, Rewritten};
pub use unknown::Unknown;

#[cfg(test)]
mod tests {
    use super::Unknown;

    /// A file as the preprocessor hands it on.
    fn file(text: &str) -> String {
        format!("# 1 \"kernel.cu\"\n# 1 \"/usr/include/x.h\" 1 3\nint f() __asm__(\"g\");\nasm(\"rdtsc;\");\n# 2 \"kernel.cu\" 2\n{text}")
    }

    fn rewrite(text: &str) -> Result<Option<String>, Vec<Unknown>> {
        super::rewrite(text).known()
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = file("int a;\nasm volatile(\n    \"mov.u32 %0, %%laneid;\"\n    : \"=r\"(x)); int b;\nint c;\n");
        let rewritten = rewrite(&text).expect("known").expect("changed");
        // What follows the statement is on the line that it was on: the fifth.
        let (_, after) = rewritten.split_once("while (0)").expect("a statement");
        assert_eq!(after, "\n# 5 \"kernel.cu\"\n; int b;\nint c;\n");
        assert!(rewritten.contains("candle_rocm::lane()"), "{rewritten}");
        assert!(
            rewritten.contains("asm(\"rdtsc;\");"),
            "a header's are the host's"
        );
    }

    #[test]
    fn what_is_no_ptx_stays() {
        for text in [
            "extern int f() asm(\"other\");\n",
            "asm volatile(\"\" ::: \"memory\");\n",
            "const char *s = \"asm(mov)\"; const char *r = R\"x(asm(\"mov;\"))x\"; char c = '\"';\n",
            "int basmati = 1'000; int casm(int);\n",
        ] {
            assert_eq!(rewrite(&file(text)), Ok(None), "{text}");
        }
    }

    #[test]
    fn unknown_ones_are_named_with_file_and_line() {
        let text = file(
            "asm(\"add.u32 %0, %1, 1;\" : \"=r\"(x) : \"r\"(y));\n\
             # 40 \"deep.cuh\" 1\n\
             \n\
             asm volatile(\"{ .reg .pred p; wgmma.fence.sync.aligned; add.rz.f32 %0, %0, %0; }\" : \"+f\"(x));\n\
             # 4 \"kernel.cu\" 2\n\
             asm(\"bra somewhere;\");\n",
        );
        let unknown = |file: &str, line, instruction: &str, reason: &str| Unknown {
            file: file.to_owned(),
            line,
            instruction: instruction.to_owned(),
            reason: reason.to_owned(),
        };
        assert_eq!(
            rewrite(&text),
            Err(vec![
                unknown(
                    "deep.cuh",
                    41,
                    "wgmma.fence.sync.aligned",
                    "the instruction is not known"
                ),
                unknown(
                    "deep.cuh",
                    41,
                    "add.rz.f32 %0, %0, %0",
                    "the instruction is known, but not with `.rz`"
                ),
                unknown(
                    "kernel.cu",
                    4,
                    "bra somewhere",
                    "the instruction is not known"
                ),
            ])
        );
    }

    #[test]
    fn unknown_ones_are_errors_where_they_are_used() {
        let text = file(
            "asm(\"bra a;\");\nasm(\"mov.u32 %0, 1;\" : \"=r\"(x));\nasm(\"bra b;\"); int y;\n",
        );
        let rewritten = super::rewrite(&text);
        assert!(!rewritten.is_known());
        let code = rewritten.code.as_deref().expect("changed");
        let (_, after) = code
            .split_once("::candle_rocm::unknown_ptx<1>()")
            .expect("the second");
        assert_eq!(after, "\n# 4 \"kernel.cu\"\n; int y;\n");
        let used =
            rewritten.used("error: call to 'void candle_rocm::unknown_ptx<1>()' declared with");
        assert_eq!(used.len(), 1);
        assert_eq!((used[0].line, used[0].instruction.as_str()), (4, "bra b"));
        assert_eq!(rewritten.used("no such"), []);
    }

    #[test]
    fn broken_statements_are_errors() {
        for (text, reason) in [
            (
                "asm(\"mov.u32 %0, %1;\" : \"=x\"(x) : \"r\"(y));",
                "the constraint \"=x\" is not known",
            ),
            (
                "asm(\"mov.u32 %0, r7;\" : \"=r\"(x));",
                "neither declared nor a special one",
            ),
            (
                "asm(\"mov.u32 %0;\" : \"=r\"(x));",
                "2 operands were expected, not 1",
            ),
            (
                "asm(\"add.u32 %0, %1, 08z;\" : \"=r\"(x) : \"r\"(y));",
                "the number `08z`",
            ),
            ("asm(\"bar.sync 1, 64;\");", "`bar.sync 0`"),
            ("asm(NAME);", "must be string literals"),
        ] {
            let unknown = rewrite(&file(text)).expect_err(text);
            assert!(unknown[0].reason.contains(reason), "{text}: {}", unknown[0]);
        }
    }
}
