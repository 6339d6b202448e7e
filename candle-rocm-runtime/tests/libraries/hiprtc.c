/* Stands for AMD's hiprtc: its functions, over a clang that sees no header but those that it is given. The environment
 * names the clang (STAND_IN_CLANG), its further options (STAND_IN_OPTIONS), and a file that gets a line for each source
 * compiled (STAND_IN_LOG). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    char folder[64];
    char *source;
    char *log;
    char *code;
    size_t code_size;
} Program;

static void path(char *to, size_t size, const Program *program, const char *name) {
    snprintf(to, size, "%s/%s", program->folder, name);
}

static void save(const Program *program, const char *name, const char *text) {
    char file[512];
    path(file, sizeof file, program, name);
    for (char *slash = strchr(file + strlen(program->folder) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(file, 0700);
        *slash = '/';
    }
    FILE *out = fopen(file, "w");
    if (!out) abort();
    fputs(text, out);
    fclose(out);
}

static char *load(const Program *program, const char *name, size_t *size) {
    char file[512];
    path(file, sizeof file, program, name);
    FILE *in = fopen(file, "rb");
    *size = 0;
    if (!in) return calloc(1, 1);
    fseek(in, 0, SEEK_END);
    *size = (size_t)ftell(in);
    rewind(in);
    char *bytes = calloc(1, *size + 1);
    if (fread(bytes, 1, *size, in) != *size) abort();
    fclose(in);
    return bytes;
}

int hiprtcVersion(int *major, int *minor) {
    *major = 7;
    *minor = 0;
    return 0;
}

const char *hiprtcGetErrorString(int status) { return status == 0 ? "fine" : "HIPRTC_ERROR_COMPILATION"; }

int hiprtcCreateProgram(Program **made, const char *source, const char *name, int count, const char *const *texts,
                        const char *const *names) {
    Program *program = calloc(1, sizeof *program);
    strcpy(program->folder, "/tmp/stand-in-hiprtc-XXXXXX");
    if (!mkdtemp(program->folder)) abort();
    save(program, *name ? name : "none.cu", source);
    program->source = strdup(*name ? name : "none.cu");
    program->log = calloc(1, 1);
    for (int i = 0; i < count; i++) save(program, names[i], texts[i]);
    *made = program;
    return 0;
}

int hiprtcCompileProgram(Program *program, int count, const char *const *options) {
    static char command[1 << 16];
    const char *more = getenv("STAND_IN_OPTIONS");
    int at = snprintf(command, sizeof command,
                      "cd %s && '%s' -x hip --cuda-device-only --no-gpu-bundle-output -c -nogpulib -I. %s -o code",
                      program->folder, getenv("STAND_IN_CLANG"), more ? more : "");
    for (int i = 0; i < count; i++) {
        if (strcmp(options[i], "--hiprtc-no-builtin-header") == 0) continue;
        at += snprintf(command + at, sizeof command - at, " '%s'", options[i]);
    }
    snprintf(command + at, sizeof command - at, " %s 2> log", program->source);
    FILE *noted = fopen(getenv("STAND_IN_LOG"), "a");
    if (!noted) abort();
    fputs("compiled\n", noted);
    fclose(noted);
    int status = system(command);
    size_t size;
    free(program->log);
    program->log = load(program, "log", &size);
    program->code = load(program, "code", &program->code_size);
    return status == 0 ? 0 : 6;
}

int hiprtcGetProgramLogSize(Program *program, size_t *size) {
    *size = strlen(program->log) + 1;
    return 0;
}

int hiprtcGetProgramLog(Program *program, char *log) {
    strcpy(log, program->log);
    return 0;
}

int hiprtcGetCodeSize(Program *program, size_t *size) {
    *size = program->code_size;
    return 0;
}

int hiprtcGetCode(Program *program, char *code) {
    memcpy(code, program->code, program->code_size);
    return 0;
}

int hiprtcDestroyProgram(Program **program) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", (*program)->folder);
    if (system(command) != 0) abort();
    free((*program)->source);
    free((*program)->log);
    free((*program)->code);
    free(*program);
    *program = 0;
    return 0;
}
