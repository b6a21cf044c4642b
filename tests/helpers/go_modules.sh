# What scripts share that get programs or files for tests from Go modules into .controlplane.
# A script sets make_target, the target that runs it, and sources this file.

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

fail() {
	echo "make $make_target: $*" >&2
	exit 1
}

# required_version MODULE FILE: the version of a module that a go.mod requires
required_version() {
	version=$(sed -n "s|^[[:space:]]*$1[[:space:]]\{1,\}\(v[^[:space:]]*\).*|\1|p" "$2")
	[ -n "$version" ] || fail "$2 doesn't require $1"
	echo "$version"
}

# needed_go FILE: the version of Go that a go.mod needs
needed_go() {
	sed -n 's/^go //p' "$1"
}

# use_go VERSION [ALTERNATIVE]: fail unless this version of Go, or a newer one, is installed
use_go() {
	advice="install Go $1 or newer${2:+, or $2}"
	command -v go >/dev/null 2>&1 || fail "Go is not installed; $advice"
	# The installed toolchain: Go must not download another one.
	export GOTOOLCHAIN=local CGO_ENABLED=0
	installed=$(go env GOVERSION | sed 's/^go//; s/ .*//')
	oldest=$(printf '%s\n%s\n' "$1" "$installed" | sort -t. -k1,1n -k2,2n -k3,3n | head -n 1)
	[ "$oldest" = "$1" ] || fail "Go $installed is too old; $advice"
}

# begin FOLDER: make the folder $unfinished beside it. It is removed when the script ends, unless
# `finish FOLDER` moves it, so that an interruption leaves no half of a folder.
begin() {
	unfinished=$(dirname "$1")/.$(basename "$1").$$
	trap 'rm -rf "$unfinished"' EXIT
	trap 'exit 130' INT TERM
	mkdir -p "$unfinished"
}

finish() {
	rm -rf "$1"
	mv "$unfinished" "$1"
}
