// Command licences looks at the licence of every module that a build or a test
// of this module can use, which are those that go.mod names, and fails where one
// is not allowed, or not known. With -notices it writes the licences of what is
// linked into a program, which go with its binaries.
//
// It recognises licences by sentences of theirs, in the files where they are by
// convention: at the root of a module, and beside the packages that are used.
// It reads the module cache alone, and judges no texts that it does not know.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// kind is a licence, and how its text is recognised: all of these must be in
// it, in lower case and with single spaces.
type kind struct {
	name    string
	allowed bool
	signs   []string
}

// kinds are the licences that are known. A text may hold several; all of them
// must be allowed. What is not allowed is here so that it is found beside what
// is, and named.
var kinds = []kind{
	{"Apache-2.0", true, []string{"apache license", "version 2.0"}},
	{"BSD", true, []string{"redistribution and use in source and binary forms", "this software is provided", "disclaimed"}},
	{"ISC", true, []string{"permission to use, copy, modify, and", "distribute this software", "appear in all copies"}},
	{"MIT", true, []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "the software is provided"}},
	{"MPL-2.0", true, []string{"mozilla public license", "version 2.0"}},
	{"Unlicense", true, []string{"this is free and unencumbered software released into the public domain"}},
	{"AGPL", false, []string{"gnu affero general public license"}},
	{"GPL", false, []string{"gnu general public license"}},
	{"LGPL", false, []string{"gnu lesser general public license"}},
	{"SSPL", false, []string{"server side public license"}},
	{"BUSL", false, []string{"business source license"}},
	{"Elastic", false, []string{"elastic license"}},
	{"Commons Clause", false, []string{"commons clause"}},
	{"CC-BY-NC", false, []string{"attribution-noncommercial"}},
	{"CC-BY-SA", false, []string{"attribution-sharealike"}},
}

// exceptions are files that say nothing about code, with the reason.
var exceptions = map[string]string{
	"github.com/opencontainers/go-digest LICENSE.docs": "of its documents",
}

var (
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicen[cs]e)([.-].*)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^notice([.-].*)?$`)
	space       = regexp.MustCompile(`\s+`)
	// weaker names the licences that the Mozilla licence lets one choose instead;
	// it is no offer of them.
	weaker = regexp.MustCompile(`"?secondary license"? means either the gnu general public license.*?any later versions of those licenses\.`)
)

// identify names the licences in a text, those first that are not allowed.
func identify(text []byte) (allowed, forbidden []string) {
	plain := strings.ToLower(space.ReplaceAllString(string(text), " "))
	plain = weaker.ReplaceAllString(plain, "")
	for _, k := range kinds {
		if slices.ContainsFunc(k.signs, func(sign string) bool { return !strings.Contains(plain, sign) }) {
			continue
		}
		if k.allowed {
			allowed = append(allowed, k.name)
		} else {
			forbidden = append(forbidden, k.name)
		}
	}
	return allowed, forbidden
}

// module is a module of the build list, as the go command describes it.
type module struct {
	Path, Version, Dir, Error string
	packages                  []string // directories that are used, where that is known
}

// files are the files of a module whose names match, at its root and beside the
// packages that are used, from the root.
func (m *module) files(name *regexp.Regexp) (found []string, err error) {
	dirs := map[string]bool{m.Dir: true}
	for _, dir := range m.packages {
		for ; strings.HasPrefix(dir, m.Dir) && !dirs[dir]; dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}
	for dir := range dirs {
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if e.Type().IsRegular() && name.MatchString(e.Name()) {
				rel, err := filepath.Rel(m.Dir, filepath.Join(dir, e.Name()))
				if err != nil {
					return nil, err
				}
				found = append(found, rel)
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// judge names the licences of a module, or says what is wrong with them.
func (m *module) judge() (names []string, err error) {
	files, err := m.files(licenceFile)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, file := range files {
		if exceptions[m.Path+" "+file] != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, file))
		if err != nil {
			return nil, err
		}
		allowed, forbidden := identify(text)
		switch {
		case forbidden != nil:
			errs = append(errs, fmt.Errorf("%s: %s is not allowed", file, strings.Join(forbidden, ", ")))
		case allowed == nil:
			errs = append(errs, fmt.Errorf("%s: not a licence that is known here", file))
		}
		names = append(names, allowed...)
	}
	if files == nil {
		errs = append(errs, errors.New("no licence file"))
	}
	slices.Sort(names)
	return slices.Compact(names), errors.Join(errs...)
}

// check judges all modules. It writes a line about each that is refused, and one
// about all.
func check(modules []*module, w io.Writer) error {
	count, bad := make(map[string]int), 0
	for _, m := range modules {
		names, err := m.judge()
		if err != nil {
			bad++
			fmt.Fprintf(w, "%s %s: %s\n", m.Path, m.Version, strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		count[strings.Join(names, " and ")]++
	}
	text := fmt.Sprintf("%d modules", len(modules))
	for _, names := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf(", %d %s", count[names], names)
	}
	fmt.Fprintln(w, text)
	switch {
	case len(modules) == 0:
		return errors.New("no modules") // then nothing was checked
	case bad > 0:
		return fmt.Errorf("%d of %d modules have a licence that is not allowed, or none that is known", bad, len(modules))
	}
	return nil
}

// list runs a go command that prints a sequence of JSON values.
func list[T any](env []string, args ...string) (all []*T, err error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", cmd, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		v := new(T)
		switch err := dec.Decode(v); {
		case err == io.EOF: //nolint:errorlint // as Decode returns it
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%v: %w", cmd, err)
		}
		all = append(all, v)
	}
}

// buildList are the modules that go.mod names.
func buildList() ([]*module, error) {
	modules, err := list[module](nil, "mod", "download", "-json")
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if m.Error != "" {
			return nil, fmt.Errorf("%s: %s", m.Path, m.Error)
		}
	}
	return modules, nil
}

// linked are the modules of which packages are linked into a program, on any
// system for which there are binaries.
func linked(program string) (modules []*module, err error) {
	type pkg struct {
		Dir    string
		Module *module
	}
	byPath := make(map[string]*module)
	for _, system := range []string{"linux", "darwin", "windows"} {
		packages, err := list[pkg]([]string{"GOOS=" + system, "CGO_ENABLED=0"}, "list", "-deps", "-json=Dir,Module", program)
		if err != nil {
			return nil, err
		}
		for _, p := range packages {
			if p.Module == nil || p.Module.Version == "" { // the standard library, and ours
				continue
			}
			m := byPath[p.Module.Path]
			if m == nil {
				m = p.Module
				byPath[m.Path] = m
				modules = append(modules, m)
			}
			m.packages = append(m.packages, p.Dir)
		}
	}
	slices.SortFunc(modules, func(a, b *module) int { return strings.Compare(a.Path, b.Path) })
	return modules, nil
}

// notices writes the licences and notices of modules, and of Go itself.
func notices(w io.Writer, modules []*module) error {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	language := &module{Path: "Go", Version: runtime.Version(), Dir: strings.TrimSpace(string(goroot))}
	works := make(map[string][]string) // by text: most have one of a few
	var texts []string
	for _, m := range append([]*module{language}, modules...) {
		files, err := m.files(licenceFile)
		if err != nil {
			return err
		}
		if files == nil {
			return fmt.Errorf("%s has no licence", m.Path)
		}
		more, err := m.files(noticeFile)
		if err != nil {
			return err
		}
		for _, file := range append(files, more...) {
			text, err := os.ReadFile(filepath.Join(m.Dir, file))
			if err != nil {
				return err
			}
			t := string(bytes.TrimSpace(text))
			if works[t] == nil {
				texts = append(texts, t)
			}
			works[t] = append(works[t], fmt.Sprintf("%s %s, %s\n", m.Path, m.Version, filepath.ToSlash(file)))
		}
	}
	fmt.Fprintln(w, "This program contains the following works of others, under the licences below.")
	for _, text := range texts {
		fmt.Fprintf(w, "\n%s\n%s\n%s\n", strings.Repeat("-", 80), strings.Join(works[text], ""), text)
	}
	return nil
}

func run(w io.Writer, file, program string) error {
	modules, err := buildList()
	if err != nil {
		return err
	}
	in, err := linked(program)
	if err != nil {
		return err
	}
	for _, l := range in {
		i := slices.IndexFunc(modules, func(m *module) bool { return m.Path == l.Path })
		if i < 0 {
			return fmt.Errorf("%s is linked, and not in the build list", l.Path)
		}
		modules[i].packages = l.packages
	}
	if err := check(modules, w); err != nil {
		return err
	}
	if file == "" {
		return nil
	}
	var text bytes.Buffer
	if err := notices(&text, in); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

func main() {
	file := flag.String("notices", "", "write the licences of what is linked into the program to this `file`")
	program := flag.String("program", "./cmd/s3logctl", "`package` of the program")
	flag.Parse()
	if err := run(os.Stdout, *file, *program); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}
