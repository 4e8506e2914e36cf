package manifest

// Bounds of a record. Those in bytes count the JSON encoding.
const (
	MaxManifest    = 512 << 10 // bytes of a manifest
	MaxTombstone   = 32 << 10  // bytes of a tombstone or void
	MaxHeader      = 32 << 10  // bytes of Header
	MaxUnknown     = 16 << 10  // bytes of Critical and Unknown together
	MaxTail        = 128 << 10 // bytes of Tail in base64
	MaxLabel       = 128       // bytes of Owner.Label
	MaxSoftware    = 128       // bytes of Commit.Software
	MaxToken       = 64        // bytes of UID, and of ids of commits and writers
	MaxRule        = 64        // bytes of ActivityRule
	MaxKind        = 32        // bytes of a kind
	MaxGenerations = 64
	MaxKeys        = 256
	MaxSegments    = 512
	MaxRetired     = 256
)
