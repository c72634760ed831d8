# shellcheck shell=bash
# What the scripts of this folder share. Sourced, never run.

cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

# cargo-fuzz needs nightly flags: from a nightly toolchain, or from the stable one told so.
if rustup run nightly rustc --version >/dev/null 2>&1; then
    cargo=(cargo +nightly)
else
    export RUSTC_BOOTSTRAP=1
    cargo=(cargo)
fi

command -v cargo-fuzz >/dev/null || {
    echo "${0##*/}: cargo-fuzz is missing; run: cargo install cargo-fuzz" >&2
    exit 1
}

# Prints the script's own head comment: its manual.
usage() {
    sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$0"
}

# targets [NAME...]: those, or all.
targets() {
    if (($# > 0)); then printf '%s\n' "$@"; else "${cargo[@]}" fuzz list; fi
}

# Inputs are small, so a large piece of memory at once means that a length was believed.
limits=(-max_len=4096 -malloc_limit_mb=64 -rss_limit_mb=1024 -timeout=10)
