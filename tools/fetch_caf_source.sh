#!/usr/bin/env bash
# Fetches the source of the installed CAF, from where its package came from, and unpacks it into a folder. Does nothing
# when it is there already. ThreadSanitizer sees only what was compiled for it, and Debian's libcaf_core was not.
#   fetch_caf_source.sh FOLDER
set -euo pipefail
folder=$1
package=actor-framework
version=$(dpkg-query --show --showformat='${source:Version}' libcaf-dev)
[ "$(cat "$folder/version" 2>/dev/null)" = "$version" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/sources" "$work/lists/partial" "$work/archive"
# Debian's own sources as this machine has them, but for source packages; the machine's lists stay as they are.
shopt -s nullglob
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
    [ -f "$list" ] && grep -q debian "$list" || continue
    sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"$work/sources/$(basename "$list")"
done
apt=(apt-get -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" -o Dir::State::lists="$work/lists"
    -o APT::Sandbox::User=root --quiet=2)
# The upstream archive is all that is used: its patches are about packaging.
if ! (cd "$work/archive" && "${apt[@]}" update && "${apt[@]}" source --tar-only "$package=$version") >"$work/log" 2>&1; then
    echo "the source package $package $version cannot be fetched; APT's sources must offer it:" >&2
    tail -n 3 "$work/log" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
tar --extract --strip-components=1 --directory "$folder" --file "$work"/archive/*.orig.tar.*
echo "$version" >"$folder/version"
