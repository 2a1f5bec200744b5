package compile

import "testing"

func TestHostFlag(t *testing.T) {
	zig := Tool{Args: []string{"/opt/thox/zig-1/zig", "c++"}}
	gcc := Tool{Args: []string{"/usr/bin/g++"}}
	for _, tt := range []struct {
		tool     Tool
		in, want string
	}{
		{zig, "-march=armv8.2-a+bf16", "-mcpu=generic+v8_2a+bf16"},
		{zig, "-march=armv8-a+crc", "-mcpu=generic+crc"},
		{zig, "-march=armv9.1-a", "-mcpu=generic+v9_1a"},
		{zig, "-mavx2", "-mavx2"},
		{zig, "-march=x86-64-v3", "-march=x86-64-v3"},
		{gcc, "-march=armv8.2-a+bf16", "-march=armv8.2-a+bf16"},
	} {
		if got := hostFlag(tt.tool, tt.in); got != tt.want {
			t.Errorf("hostFlag(%s, %s) = %s, want %s", tt.tool.Args[0], tt.in, got, tt.want)
		}
	}
}
