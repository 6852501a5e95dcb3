# Sourced by bin/run and bin/test, the only ways to set this project up: installs what is missing, builds a preset.
# Both steps cost about a second when there is nothing to do.

# The directory of the project, and the one that the caller stands in.
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }

# ensure_packages FILE...: installs Debian's packages that the files name and that are not there yet.
ensure_packages() {
  local wanted missing=() name
  wanted=$(sed 's/#.*//' "$@" | tr -s ' \n' '\n' | sed '/^$/d')
  for name in $wanted; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  say "installing from Debian's packages: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    say "these packages are missing and only root can install them: apt-get install ${missing[*]}"
    return 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  local quiet=(-qq -o=Dpkg::Use-Pty=0)
  # The lists on the machine may know the packages already; if not, they are fetched anew.
  apt-get install -y "${quiet[@]}" --no-install-recommends "${missing[@]}" >/dev/null 2>&1 && return 0
  apt-get update "${quiet[@]}" >&2
  apt-get install -y "${quiet[@]}" --no-install-recommends "${missing[@]}" >&2
}

# build_preset PRESET [TARGET...]: configures when that was not done yet, then builds (ninja looks for changes itself).
build_preset() {
  local preset=$1 folder="$project/build/$1" targets=() target
  shift
  for target in "$@"; do targets+=(--target "$target"); done
  if [ ! -f "$folder/build.ninja" ]; then
    (cd "$project" && cmake --preset "$preset" >&2) || return 1
  fi
  cmake --build "$folder" "${targets[@]}" >&2
}
