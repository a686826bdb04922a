#!/usr/bin/env bash
# Fails when a C++ or CUDA file is not laid out as .clang-format says, and names it.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
wrong=0
files=$(git ls-files --cached --others --exclude-standard -- '*.hpp' '*.cpp' '*.cuh' '*.cu')
if [ -z "$files" ]; then
    echo "check_format: git lists no files here: it must be installed, and this a clone that belongs to its user" >&2
    exit 1
fi
while read -r file; do
    if ! clang-format --dry-run --Werror "$file" 2>/dev/null; then
        echo "$file: differs from .clang-format; clang-format -i $file puts it right"
        wrong=1
    fi
done <<<"$files"
exit $wrong
