#!/usr/bin/env bash
# Makes the corpus anew: the smallest inputs that together reach all that is reached by the kept ones, by
# those that run.sh found and by generated seeds.
#
#   fuzz/keep.sh [TARGET...]
set -euo pipefail
. "$(dirname "$0")/common.sh"

# Longer inputs are of no more use, and the corpus lives in git.
INPUT_BYTES_MAX=512

seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
RUSTFLAGS="--cfg fuzzing" "${cargo[@]}" run --quiet --example seeds "$seeds"
for target in $(targets "$@"); do
    mkdir -p "corpus/$target" "found/$target" "$seeds/$target" "$seeds/kept/$target"
    "${cargo[@]}" fuzz run "$target" "$seeds/kept/$target" "corpus/$target" "found/$target" \
        "$seeds/$target" -- -set_cover_merge=1 -max_len="$INPUT_BYTES_MAX" >"$seeds/log" 2>&1 || {
        tail -n 40 "$seeds/log"
        exit 1
    }
    rm -rf "corpus/$target"
    mv "$seeds/kept/$target" "corpus/$target"
    echo "$target: $(find "corpus/$target" -type f | wc -l) inputs," \
        "$(cat "corpus/$target"/* | wc -c) bytes"
done
