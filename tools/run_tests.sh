#!/usr/bin/env bash
# Runs the tests of a build directory and, when one is named, the fuzz targets of another, and sums them up:
# a GoogleTest program counts by its cases, any other test as one. As many programs run at once as there are cores.
#   run_tests.sh BUILD_DIR [FUZZ_BUILD_DIR]
set -uo pipefail
build=$1
fuzz_build=${2:-}
reports=$PWD/$build/reports
rm -rf "$reports"
mkdir -p "$reports"

status=0
export GTEST_OUTPUT=xml:$reports/
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --output-junit "$reports/ctest.junit" || status=1
if [ -n "$fuzz_build" ]; then
    ctest --test-dir "$fuzz_build" -j "$(nproc)" --output-on-failure --output-junit "$reports/fuzz.junit" || status=1
fi

# A program that crashed has written no report of its own, so ctest's line counts for it. Failures are told last, where
# a log that was cut still has them.
shopt -s nullglob
failures=$reports/failures
: > "$failures"
counts=$(
    for report in "$reports"/*.xml; do
        awk -v program="$(basename "$report" .xml)" -v failures="$failures" '
            match($0, /<testcase name="[^"]*"/) {
                name = substr($0, RSTART + 16, RLENGTH - 17)
                if (match($0, /classname="[^"]*"/)) name = substr($0, RSTART + 11, RLENGTH - 12) "." name
            }
            /<testcase / && /result="completed"/ { passed++ }
            /<failure /  && name != failing { failing = name; failed++; passed-- }
            /<failure / && match($0, /message="[^"]*"/) {
                reason = substr($0, RSTART + 9, RLENGTH - 10)
                gsub(/&#x0A;/, " | ", reason); gsub(/&quot;/, "\"", reason); gsub(/&lt;/, "<", reason)
                gsub(/&gt;/, ">", reason); gsub(/&apos;/, "\047", reason); gsub(/&amp;/, "\\&", reason)
                print "failed: " program " " name ": " substr(reason, 1, 400) >> failures
            }
            match($0, /<skipped message="[^"]*"/) {
                skipped++
                reason = substr($0, RSTART + 18, RLENGTH - 19)
                sub(/.*&#x0A;/, "", reason)
                print "skipped: " program " " name ": " reason > "/dev/stderr"
            }
            END { print passed + 0, failed + 0, skipped + 0 }' "$report"
    done
    for report in "$reports"/*.junit; do
        awk -v reports="$reports" -v failures="$failures" '
            match($0, /<testcase name="[^"]*"/) {
                name = substr($0, RSTART + 16, RLENGTH - 17)
                counted = system("test -e \"" reports "/tests_" name ".xml\"") == 0
                if (/status="run"/) { if (!counted) passed++ }
                else if (/status="fail"/) { if (!counted) { failed++; print "failed: " name >> failures } }
                else if (!counted) skipped++
            }
            END { print passed + 0, failed + 0, skipped + 0 }' "$report"
    done
)
cat "$failures" >&2
echo "$counts" | awk -v status=$status '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        if (status != 0 && failed == 0) failed = 1  # ctest itself gave up, or a program ended badly after its cases
        print passed " passed, " failed " failed, " skipped " skipped"
        exit status
    }'
