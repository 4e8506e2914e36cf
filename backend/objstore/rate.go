package objstore

// Rate is how many writes a store takes on one key; the zero Rate says that no
// limit is known.
type Rate struct {
	PerSecond float64
	Burst     int // at once, before the rate counts; 0 means 1
}

// Rated is an optional ability of a Store: to say its Rate. A decorator need not
// have it, if it has Unwrap.
type Rated interface {
	Rate() Rate
}

// RateOf is the rate of a store, or of the one that it wraps.
func RateOf(store Reader) Rate {
	for {
		if r, ok := store.(Rated); ok {
			return r.Rate()
		}
		u, ok := store.(interface{ Unwrap() Store })
		if !ok {
			return Rate{}
		}
		store = u.Unwrap()
	}
}
