/*
 * The permit protocol: who may leave, who is counted, and when that ends.
 *
 * The ledger is one process that never forgets (raft makes it so). The network
 * loses, duplicates and reorders every message. An agent restarts whenever it
 * likes and forgets what it asked for. Time does not exist: whatever may expire
 * may expire now, so nothing that holds here rests on a clock.
 *
 * No route is ever lost against its will in this model. Then two things hold
 * whatever happens, and are asserted after each step that could break them:
 *
 *     at least FLOOR sites announce;
 *     a site that the ledger counts In announces.
 *
 * Sizes:    -DSITES -DFLOOR -DIDS (how many requests each site makes).
 * Mutants, each a rule that was considered and rejected, and each found:
 *   -DRECLAIM     a permit's accounting ends by time
 *   -DSELFCOUNT   the site that asks is one of those that stay
 *   -DRETURNING   a site that may return counts as announcing
 *   -DBEATSONLY   who counts is what beats say, and not the phase
 *   -DVOIDSILENT  a permit is given back by a site that does not say it announces
 *   -DLATEACT     the right to act outlives the word that it is dead
 */
#ifndef SITES
#define SITES 2
#endif
#ifndef FLOOR
#define FLOOR 1
#endif
#ifndef IDS
#define IDS 2
#endif

#define In        0
#define Out       1
#define Returning 2

#define Withdraw  0
#define Return    1

/* What is so at each site. */
bool on[SITES] = 1;    /* it announces */
byte asked[SITES];     /* the id it used last; on disk */
byte leave[SITES];     /* the withdrawal it waits for and may still act on; 0 for none */
byte back[SITES];      /* the same of a return */
byte dead[SITES];      /* it will act on no withdrawal up to this id */
byte proven[SITES];    /* the return that it carried out last */
byte announcing = SITES;

/* What the ledger has. */
byte phase[SITES];
byte permit[SITES];    /* the id of the withdrawal that put it out */
byte awaits[SITES];    /* the id of the return that is under way */
byte slot[SITES];      /* the newest id that was answered … */
bool granted[SITES];   /* … and how */
bool seen[SITES] = 1;  /* what the newest beat to arrive says of announcing */

chan requests = [2] of { byte, bit, byte };        /* site, action, id */
chan answers  = [2] of { byte, bit, byte };        /* only grants: a refusal changes nothing */
chan beats    = [2] of { byte, bit, byte, byte };  /* site, announces, dead through, proven */

inline sound(i) {
	assert(announcing >= FLOOR);
	assert(phase[i] != In || on[i])
}

/* who would stay if site i left */
inline count(i, n) {
	n = 0; j = 0;
	do
	:: j < SITES ->
		if
#if defined(SELFCOUNT)
		:: phase[j] == In && seen[j] -> n++
#elif defined(RETURNING)
		:: j != i && phase[j] != Out && seen[j] -> n++
#elif defined(BEATSONLY)
		:: j != i && seen[j] -> n++
#else
		:: j != i && phase[j] == In && seen[j] -> n++
#endif
		:: else
		fi;
		j++
	:: else -> break
	od;
	j = 0
}

proctype Site(byte i) {
	byte id;
	do
	/* ask, and ask again with the same id */
	:: atomic { on[i] && leave[i] == 0 && asked[i] < IDS -> asked[i]++; leave[i] = asked[i] }
	:: atomic { !on[i] && back[i] == 0 && asked[i] < IDS -> asked[i]++; back[i] = asked[i] }
	:: atomic { leave[i] != 0 && nfull(requests) -> requests!i, Withdraw, leave[i] }
	:: atomic { back[i] != 0 && nfull(requests) -> requests!i, Return, back[i] }

	/* the right to act ends: by time, or because the verdict changed */
#ifdef LATEACT
	:: atomic { leave[i] != 0 && dead[i] < leave[i] -> dead[i] = leave[i] }
#else
	:: atomic { leave[i] != 0 -> dead[i] = leave[i]; leave[i] = 0 }
#endif
	:: atomic { back[i] != 0 -> back[i] = 0 }

	/* the agent starts anew and knows only what is on its disk and on the wire */
	:: atomic { leave[i] != 0 || back[i] != 0 -> leave[i] = 0; back[i] = 0; dead[i] = asked[i] }

	/* act */
	:: atomic { answers??[eval(i), Withdraw, _] ->
		answers??eval(i), Withdraw, id;
		if
		:: id == leave[i] && id != 0 ->
			leave[i] = 0;
			if :: on[i] -> on[i] = 0; announcing-- :: else fi;
			sound(i)
		:: else
		fi;
		id = 0 }
	:: atomic { answers??[eval(i), Return, _] ->
		answers??eval(i), Return, id;
		if
		:: id == back[i] && id != 0 ->
			back[i] = 0; proven[i] = id;
			if :: !on[i] -> on[i] = 1; announcing++ :: else fi
		:: else
		fi;
		id = 0 }

	/* say what is so */
	:: atomic { nfull(beats) -> beats!i, on[i], dead[i], proven[i] }
	od
}

active proctype Ledger() {
	byte i, id, d, r, n, j;
	bit what, says;
	do
	:: atomic { len(requests) > 0 && nfull(answers) ->
		requests?i, what, id;
		if
		:: id < slot[i] -> skip                     /* stale */
		:: id == slot[i] ->                         /* seen before: the same answer, unless something newer stands */
			if
			:: granted[i] && (what == Withdraw && phase[i] == Out || what == Return && phase[i] == Returning) ->
				answers!i, what, id
			:: else
			fi
		:: id > slot[i] && what == Withdraw ->
			slot[i] = id; granted[i] = 0;
			count(i, n);
			if
			/* nobody is missed who was not counted */
			:: phase[i] == Returning || phase[i] == In && n >= FLOOR ->
				phase[i] = Out; permit[i] = id; granted[i] = 1;
				answers!i, what, id
			:: else
			fi
		:: id > slot[i] && what == Return ->
			slot[i] = id; granted[i] = 0;
			if
			:: phase[i] != In -> phase[i] = Returning; awaits[i] = id; granted[i] = 1; answers!i, what, id
			:: else
			fi
		fi;
		i = 0; what = 0; id = 0; n = 0 }

	:: atomic { len(beats) > 0 ->
		beats?i, says, d, r;
		seen[i] = says;
		if
#ifdef VOIDSILENT
		:: phase[i] == Out && permit[i] <= d -> phase[i] = In; sound(i)
#else
		:: phase[i] == Out && permit[i] <= d && says -> phase[i] = In; sound(i)
#endif
		:: phase[i] == Returning && r == awaits[i] && says -> phase[i] = In; sound(i)
		:: else
		fi;
		i = 0; says = 0; d = 0; r = 0 }

#ifdef RECLAIM
	:: atomic { phase[0] == Out -> phase[0] = In; sound(0) }
#endif
	od
}

/* The network loses, doubles, and lets one overtake another. */
active proctype Net() {
	byte a, c, d;
	bit b;
	do
	:: atomic { nempty(requests) -> requests?a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { nempty(answers) -> answers?a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { nempty(beats) -> beats?a, b, c, d; a = 0; b = 0; c = 0; d = 0 }
	:: atomic { len(requests) == 1 -> requests?<a, b, c>; requests!a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { len(answers) == 1 -> answers?<a, b, c>; answers!a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { len(beats) == 1 -> beats?<a, b, c, d>; beats!a, b, c, d; a = 0; b = 0; c = 0; d = 0 }
	:: atomic { len(requests) == 2 -> requests?a, b, c; requests!a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { len(answers) == 2 -> answers?a, b, c; answers!a, b, c; a = 0; b = 0; c = 0 }
	:: atomic { len(beats) == 2 -> beats?a, b, c, d; beats!a, b, c, d; a = 0; b = 0; c = 0; d = 0 }
	od
}

init {
	byte z;
	atomic {
		do
		:: z < SITES -> run Site(z); z++
		:: else -> break
		od;
		z = 0
	}
}
