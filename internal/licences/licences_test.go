package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	mit    = "Permission is hereby granted, free of charge, to any person\nobtaining a copy of it.\nTHE SOFTWARE IS PROVIDED \"AS IS\""
	bsd    = "Redistribution and use in source and binary\n  forms is permitted. THIS SOFTWARE IS PROVIDED by us; warranties ARE DISCLAIMED."
	apache = "Apache License\n   Version 2.0, January 2004"
	agpl   = "GNU AFFERO GENERAL PUBLIC LICENSE\nVersion 3"
	mpl    = "Mozilla Public License Version 2.0\n1.12. \"Secondary License\"\nmeans either the GNU General Public License, Version 2.0, the GNU Lesser\nGeneral Public License, Version 2.1, or any later versions of those\nlicenses.\n"
)

// tree writes files below a directory of its own.
func tree(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A module is taken if all its licences are known and allowed, and refused
// otherwise, whatever else it offers.
func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string // the licences, or part of what is wrong
		bad   bool
	}{
		"MIT":                    {map[string]string{"LICENSE": mit}, "MIT", false},
		"two in a file":          {map[string]string{"LICENSE.md": bsd + mit}, "BSD,MIT", false},
		"two files":              {map[string]string{"LICENSE-MIT": mit, "LICENSE-APACHE": apache}, "Apache-2.0,MIT", false},
		"MPL":                    {map[string]string{"LICENSE": mpl}, "MPL-2.0", false},
		"AGPL":                   {map[string]string{"COPYING": agpl}, "COPYING: AGPL is not allowed", true},
		"AGPL behind MIT":        {map[string]string{"LICENSE": mit + "\n" + agpl}, "LICENSE: AGPL is not allowed", true},
		"AGPL beside Apache":     {map[string]string{"LICENSE": apache, "COPYING.txt": agpl}, "COPYING.txt: AGPL is not allowed", true},
		"AGPL in a used package": {map[string]string{"LICENSE": mit, "used/deep/LICENCE": agpl, "used/deep/a.go": "package deep"}, "AGPL is not allowed", true},
		"AGPL in one not used":   {map[string]string{"LICENSE": mit, "other/LICENSE": agpl, "used/deep/a.go": "package deep"}, "MIT", false},
		"GPL":                    {map[string]string{"LICENSE": "GNU General Public License, version 2"}, "GPL is not allowed", true},
		"GPL beside MPL":         {map[string]string{"LICENSE": mpl + "or the GNU General Public License"}, "GPL is not allowed", true},
		"nobody knows":           {map[string]string{"LICENSE": "You may do as we say."}, "not a licence that is known", true},
		"none":                   {map[string]string{"README.md": mit}, "no licence file", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &module{Path: "example.com/m", Dir: tree(t, tt.files)}
			m.packages = []string{filepath.Join(m.Dir, "used", "deep")}
			if _, err := os.Stat(m.packages[0]); err != nil {
				m.packages = nil
			}
			names, err := m.judge()
			got := strings.Join(names, ",")
			if err != nil {
				got = err.Error()
			}
			if (err != nil) != tt.bad || !strings.Contains(got, tt.want) || !tt.bad && got != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestCheckNamesTheModule(t *testing.T) {
	good := &module{Path: "example.com/good", Version: "v1.0.0", Dir: tree(t, map[string]string{"LICENSE": mit})}
	bad := &module{Path: "example.com/bad", Version: "v2.0.0", Dir: tree(t, map[string]string{"LICENSE": agpl})}
	var out bytes.Buffer
	err := check([]*module{good, bad}, &out)
	if err == nil || !strings.HasPrefix(err.Error(), "1 of 2 modules") {
		t.Errorf("%v", err)
	}
	if want := "example.com/bad v2.0.0: LICENSE: AGPL is not allowed\n2 modules, 1 MIT\n"; out.String() != want {
		t.Errorf("got %s", out.String())
	}
	if check(nil, &out) == nil {
		t.Error("no modules at all are good")
	}
	if err := check([]*module{good}, &out); err != nil {
		t.Error(err)
	}
}

// What goes with the binaries names everything that is linked into them, once,
// with the notices that are asked for.
func TestNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the packages of three systems")
	}
	t.Chdir(filepath.Join("..", ".."))
	file := filepath.Join(t.TempDir(), "sub", "notices")
	var out bytes.Buffer
	if err := run(&out, file, "./cmd/s3logctl"); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nGo go1.", "\ngithub.com/klauspost/compress v", "\ngithub.com/aws/smithy-go v", ", NOTICE\n", "github.com/inconshreveable/mousetrap v"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("nothing says %q", want)
		}
	}
	if bytes.Contains(text, []byte("testcontainers")) {
		t.Error("what only tests need is in it")
	}
}
