#!/usr/bin/env bash
# Installs the Debian packages that are missing, and does nothing when none is.
#   install_packages.sh program|build|fuzz|shells|check|soak|clients ...
set -euo pipefail

packages_for() {
    case $1 in
    program | build)
        packages+=" g++ cmake ninja-build pkg-config libhwy-dev libyaml-cpp-dev libspdlog-dev libcli11-dev
            nlohmann-json3-dev libpcre2-dev libedit-dev libutf8proc-dev libssl-dev librocksdb-dev liburing-dev libxxhash-dev libboost-dev libcaf-dev prometheus-cpp-dev
            libjs-marked node-dompurify libjs-highlight.js libjs-katex"
        [ "$1" = program ] || packages+=" libgtest-dev libgmock-dev libdnnl-dev"
        ;;
    shells) packages+=" zsh fish" ;;  # whose completions are tested
    fuzz) packages+=" clang libclang-rt-dev" ;;
    check) packages+=" clang-format git" ;;
    soak)
        command -v python3 >/dev/null || packages+=" python3"
        command -v openssl >/dev/null || packages+=" openssl"
        ;;
    clients)  # by their commands: Node.js comes from other sources too, and then brings npm along
        command -v node >/dev/null || packages+=" nodejs"
        command -v npm >/dev/null || packages+=" npm"
        command -v chromium >/dev/null || packages+=" chromium"
        { command -v prometheus && command -v promtool; } >/dev/null || packages+=" prometheus"
        ;;
    *)
        sed -n '2,3p' "$0"
        exit 2
        ;;
    esac
}

packages=
[ $# -gt 0 ] || packages_for ""
for use in "$@"; do packages_for "$use"; done

missing=()
for package in $packages; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "missing packages; as root: apt-get install ${missing[*]}" >&2
    exit 1
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { apt-get install --yes --quiet --no-install-recommends "${missing[@]}" </dev/null; }
# The package lists may be absent or older than what the mirror still has; only then are they fetched.
install 2>/dev/null || { apt-get update --quiet && install; }

# Debian starts Prometheus when it is installed; only its program is wanted.
case " ${missing[*]} " in
    *" prometheus "*)
        if [ -d /run/systemd/system ]; then systemctl disable --quiet --now prometheus || true
        elif [ -x /etc/init.d/prometheus ]; then /etc/init.d/prometheus stop >/dev/null 2>&1 || true
        fi
        ;;
esac
