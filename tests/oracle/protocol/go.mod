module quadrant.dev/oracle/protocol

go 1.26
